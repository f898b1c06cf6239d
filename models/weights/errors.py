"""Errors with a remedy that a caller may have words of its own for, such as a flag."""


class OtherVariant(ValueError):
    """The model is another variant than the file's, for an argument that it was built with.

    Args:
      what: the difference, without the remedy.
      argument, value: what to build the model with.
    """

    def __init__(self, what: str, *, argument: str, value: str):
        super().__init__(f"{what}: build the model with {argument}={value!r}")
        self.argument = argument
        self.value = value


class PackageMissing(ValueError):
    """A package that reads a file is not installed.

    Args:
      package: its name.
    """

    def __init__(self, package: str):
        super().__init__(f"the package {package} is not installed")
        self.package = package
