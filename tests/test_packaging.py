"""The project as it is installed: the packages of the wheel, and the pins of the lock file."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
import tomli
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).parents[1]
PYPROJECT = tomli.loads((ROOT / "pyproject.toml").read_text())
# Folders at the top of the tree, and the packages they are installed as.
PACKAGE_ROOTS = {"tpuloop": "tpuloop", "models": "tpuloop.models", "configs": "tpuloop.configs"}


def python_files():
    """The installed path of every Python file, e.g. tpuloop/models/mlp.py."""
    for folder, package in PACKAGE_ROOTS.items():
        for path in (ROOT / folder).rglob("*.py"):
            yield pathlib.PurePosixPath(*package.split(".")) / path.relative_to(ROOT / folder).as_posix()


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_packages_are_the_folders_that_hold_python_files():
    files = set(python_files())
    folders = {path.parent for path in files}
    assert sorted(PYPROJECT["tool"]["setuptools"]["packages"]) == sorted(".".join(f.parts) for f in folders)
    # An editable installation does not find a package without one, though a wheel does.
    assert [str(folder) for folder in folders if folder / "__init__.py" not in files] == []


def locked():
    """The lines of the lock file as (requirement, hashes)."""
    lines = (ROOT / "requirements.lock").read_text().replace("\\\n", " ").splitlines()
    for line in lines:
        requirement, *hashes = line.split(" --hash=")
        yield requirement.strip(), [value.strip() for value in hashes]


def test_lock_holds_hashed_pins_and_no_host():
    for requirement, hashes in locked():
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][^ ]*( ; .+)?", requirement)
        assert "://" not in requirement and "@" not in requirement
        assert hashes, f"{requirement} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes)


@pytest.mark.parametrize("python", ["3.8", "3.9", "3.10"])
def test_lock_satisfies_pyproject(python):
    environment = {"python_version": python, "python_full_version": f"{python}.1", "sys_platform": "linux"}
    pins = {}
    for line, _ in locked():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            assert requirement.name not in pins, f"two pins of {requirement.name}"
            pins[requirement.name] = str(requirement.specifier)[2:]

    project = PYPROJECT["project"]
    for text in sum(project["optional-dependencies"].values(), project["dependencies"]):
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate(environment):
            continue
        version = pins.get(canonicalize_name(wanted.name))
        assert version is not None, f"{text} is not locked: run `make lock`"
        assert version in wanted.specifier, f"{text} is locked as {version}: run `make lock`"


@pytest.mark.parametrize("in_checkout", [True, False])
@pytest.mark.parametrize("folder", ["models", "configs"])
def test_folder_is_a_part_of_tpuloop_from_anywhere(tmp_path, folder, in_checkout):
    code = f"from importlib.util import find_spec; print(find_spec('tpuloop.{folder}').origin)"
    origin = run(sys.executable, "-c", code, cwd=ROOT if in_checkout else tmp_path).strip()
    assert origin.endswith(os.path.join(folder, "__init__.py"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the tree (a build leaves files behind), with nothing from the network."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ["pyproject.toml", "README.md", "LICENSE"]:
        shutil.copy(ROOT / name, tree)
    for folder in PACKAGE_ROOTS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", tree / "dist", tree)
    (path,) = (tree / "dist").glob("tpuloop-*.whl")
    return path


@pytest.mark.slow
def test_wheel_holds_every_file_and_one_top_level_package(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    digits = ROOT / "tpuloop/data/digits"
    data = {f"tpuloop/data/digits/{path.name}" for path in digits.iterdir() if path.is_file()}
    assert names == {str(path) for path in python_files()} | data
    assert {name.split("/")[0] for name in names} == {"tpuloop"}


@pytest.mark.slow
def test_wheel_works_beside_a_models_package_of_the_users_own(wheel, tmp_path):
    installed, work = tmp_path / "installed", tmp_path / "work"
    options = ["--no-deps", "--no-index", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "install", *options, "--target", installed, wheel)
    (work / "models").mkdir(parents=True)
    (work / "models/__init__.py").write_text("OWNER = 'the user'\n")

    code = """
import json, os
import models, tpuloop.models, tpuloop.configs, tpuloop.data.digits
print(json.dumps({
    "owner": models.OWNER,
    "models": tpuloop.models.__file__,
    "digits": os.listdir(os.path.dirname(tpuloop.data.digits.__file__)),
    "configs": [name for folder in tpuloop.configs.__path__ for name in os.listdir(folder)],
}))
"""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    answer = json.loads(run(sys.executable, "-c", code, cwd=work, env=environment).splitlines()[-1])
    assert answer["owner"] == "the user"
    assert answer["models"] == str(installed / "tpuloop/models/__init__.py")
    assert {"train.tfrecord", "test.tfrecord", "LICENSE"} <= set(answer["digits"])
    assert "mlp_digits.py" in answer["configs"]
