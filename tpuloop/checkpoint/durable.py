"""Files that outlive a loss of power, and reads that see what the disk holds."""

import os


def to_disk(path: str) -> None:
    """Waits until a file or folder of the local file system is on the disk.

    The system lets go of its copy of a file's content where it can, so that who reads it next reads the disk.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):  # Linux has it, macOS has not.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
