"""Google Cloud Storage on loopback: the package `gcp-storage-emulator`, mended, and with faults to order.

`python tests/gcs/emulator.py BUCKET...` runs it until it is interrupted, and prints the environment that a program
needs to find it.
"""

import contextlib
import http
import http.server
import socket
import struct
import sys
import threading
import time
import urllib.parse
from typing import NamedTuple
from unittest import mock

from gcp_storage_emulator import server as package
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import buckets, objects
from gcp_storage_emulator.storage import Storage

_CHUNK = 8192


class Request(NamedTuple):
    """What a client asked for.

    Attributes:
      kind: "read", "stat", "list", "write", "copy", "delete" or "bucket".
      name: of the object; of the listed prefix; or of the bucket.
      time: of arrival, in seconds of the monotonic clock.
    """

    kind: str
    name: str
    time: float


class _Objects(Storage):
    """Keeps what objects hold by their names, of which the package makes paths: "run/" is none, and fails in some."""

    def __init__(self):
        super().__init__(use_memory_fs=True)
        self._contents = {}

    def create_file(self, bucket_name, file_name, content, file_obj, file_id=None):
        if bucket_name not in self.buckets:
            raise NotFound
        self._contents[bucket_name, file_name] = content
        self.objects.setdefault(bucket_name, {})[file_name] = file_obj
        if file_id:
            self.delete_resumable_file_obj(file_id)

    def get_file(self, bucket_name, file_name, show_error=True):
        if (bucket_name, file_name) not in self._contents:
            raise NotFound
        return self._contents[bucket_name, file_name]

    def get_file_list(self, *args, **kwargs):
        files, prefixes = super().get_file_list(*args, **kwargs)
        return files, sorted(set(prefixes))  # One version names a folder once for each object in it.

    def delete_file(self, bucket_name, file_name):
        if self._contents.pop((bucket_name, file_name), None) is None:
            raise NotFound
        del self.objects[bucket_name][file_name]


class Emulator:
    """A server in a thread of this process, on a port of its own; keeps everything in memory.

    Attributes:
      requests: all that came, in order.
      fault: called with each request; gives an HTTP status to answer with, "reset" to hang up, a number of seconds (a
        float) to wait before the answer, "half" to hang up in the middle of it, "lost" to do what was asked and hang
        up, or None to answer as usual.
    """

    def __init__(self, *bucket_names):
        self.requests = []
        self.fault = lambda request: None
        self._storage = _Objects()
        self._lock = threading.Lock()
        for name in bucket_names:
            buckets.create_bucket(name, self._storage)
        emulator = self

        class Handler(package.RequestHandler):
            def _handle(self, method):
                emulator._handle(self, method)

            def do_GET(self):
                self._handle("GET")

            def do_POST(self):
                self._handle("POST")

            def do_PUT(self):
                self._handle("PUT")

            def do_PATCH(self):
                self._handle("PATCH")

            def do_DELETE(self):
                self._handle("DELETE")

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                # A client may hang up when it likes, as one does that is killed.
                if not isinstance(sys.exc_info()[1], (ConnectionError, BrokenPipeError)):
                    super().handle_error(request, client_address)

        self._server = Server(("127.0.0.1", 0), lambda *args: Handler(self._storage, *args))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self):
        self._patches = contextlib.ExitStack()
        self._patches.enter_context(mock.patch.object(package, "_read_data", _read_data(package._read_data)))
        self._patches.enter_context(mock.patch.object(package.Response, "close", _send))
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._patches.close()

    @property
    def environment(self):
        """What a process needs to find it, before TensorFlow is imported there."""
        endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        return {"TF_USE_MODULAR_FILESYSTEM": "1", "CLOUD_STORAGE_EMULATOR_ENDPOINT": endpoint}

    def names(self, bucket, prefix=""):
        """The objects of a bucket, sorted; without those that only mark a folder."""
        with self._lock:
            return sorted(n for n in self._storage.objects.get(bucket, {}) if n.startswith(prefix) and n[-1] != "/")

    def content(self, bucket, name):
        """What an object holds."""
        with self._lock:
            return self._storage.get_file(bucket, name)

    def put(self, bucket, name, content):
        """Makes an object, or another content of it."""
        with self._lock:
            made = objects._make_object_resource("", bucket, name, "application/octet-stream", str(len(content)))
            self._storage.create_file(bucket, name, content, objects._checksums(content, made))

    def remove(self, bucket, name):
        """Deletes an object."""
        with self._lock:
            self._storage.delete_file(bucket, name)

    def counts(self, kind, name=""):
        """How many requests of a kind came for objects with that in their name."""
        return sum(request.kind == kind and name in request.name for request in list(self.requests))

    def _handle(self, handler, method):
        request = _described(handler, method)
        self.requests.append(request)
        fault = self.fault(request)
        if isinstance(fault, float):
            time.sleep(fault)
        elif isinstance(fault, int):
            package._read_raw_data(handler)
            _answer(handler, fault)
            return
        elif fault == "reset":
            package._read_raw_data(handler)
            _hang_up(handler)
            return
        if fault in ("half", "lost"):
            handler.wfile = _Cut(handler.wfile, handler, keep=0.5 if fault == "half" else 0)
        with self._lock:
            package.Router(handler).handle(method)


class _Cut:
    """A stream that ends, and its connection with it, in the middle of the body, or before anything is said."""

    def __init__(self, stream, handler, *, keep):
        self._stream, self._handler, self._keep = stream, handler, keep
        self._writes = 0

    def write(self, data):
        self._writes += 1
        if self._keep and self._writes == 1:  # The head.
            return self._stream.write(data)
        self._stream.write(data[: int(len(data) * self._keep)])
        self._stream.flush()
        _hang_up(self._handler)
        return len(data)

    def flush(self):
        pass

    def close(self):
        pass

    closed = False


def _described(handler, method):
    url = urllib.parse.urlparse(handler.path)
    query = urllib.parse.parse_qs(url.query)
    _, _, name = url.path.partition("/o/")
    name = urllib.parse.unquote(name)
    if "upload" in url.path or "uploadType" in query:
        kind = "write"
        name = query.get("name", [""])[0]
    elif "rewriteTo" in url.path or "copyTo" in url.path:
        kind = "copy"
    elif method == "DELETE":
        kind = "delete"
    elif url.path.endswith("/o"):
        kind, name = "list", query.get("prefix", [""])[0]
    elif "/o/" not in url.path and "/b/" in url.path:
        kind, name = "bucket", url.path.rpartition("/b/")[2]
    else:
        kind = "read" if query.get("alt") == ["media"] or "/b/" not in url.path else "stat"
        name = name or urllib.parse.unquote(url.path.partition("/")[2].partition("/")[2])
    return Request(kind, name, time.monotonic())


def _answer(handler, status):
    handler.send_response(status)
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def _hang_up(handler):
    """Ends a connection with a reset, which no client takes for the end of an answer."""
    handler.close_connection = True
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def _read_data(original):
    """The package takes an upload of no bytes for one without a body, and fails."""

    def read(handler, query):
        data = original(handler, query)
        is_upload = handler.command == "PUT" or query.get("uploadType") == ["media"]
        return b"" if data is None and is_upload else data

    return read


def _send(response):
    """Sends an answer, in the place of the package's `Response.close`.

    In chunks: the plugin writes past the end of a buffer when more than 128 KiB come in one piece. It wants to know
    their sum nevertheless. A range behind the end of an object has a status of its own, which the package lacks.
    """
    content = response._content if isinstance(response._content, bytes) else response._content.encode("utf-8")
    handler, status = response._handler, response.status
    if status == http.HTTPStatus.PARTIAL_CONTENT and not content:
        status = http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
    handler.send_response(status.value, status.phrase)
    for name, value in response._headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    if len(content) <= _CHUNK:
        handler.end_headers()
        handler.wfile.write(content)
        return
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    pieces = [content[start : start + _CHUNK] for start in range(0, len(content), _CHUNK)]
    handler.wfile.write(b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b"")))


def main():
    with Emulator(*sys.argv[1:] or ["bucket"]) as emulator:
        for name, value in emulator.environment.items():
            print(f"export {name}={value}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
