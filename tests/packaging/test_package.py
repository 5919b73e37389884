"""The package can be released: its files are valid, and it runs as a user installs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from kafkalite import __version__
from tests.packaging.interpreters import PYTHONS, VERSIONS, interpreter

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
REPOSITORY = "https://example.org/kafkalite"
READY = "kafkalite is ready at "

pytestmark = pytest.mark.endurance


def run(*arguments: str | Path) -> str:
    """Run a program outside of the clone, so that it finds only what is installed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    completed = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=ROOT.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and the source distribution once."""
    directory = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKALITE_REPOSITORY_URL", REPOSITORY)
        run(sys.executable, "-m", "build", "--outdir", directory, ROOT)
    return directory


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (path,) = distributions.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a clean environment, and return its programs."""
    environment = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", environment)
    run(environment / "bin" / "pip", "install", "--quiet", wheel)
    return environment / "bin"


def serve(*command: str | Path) -> None:
    """Start a broker with a command, wait until it is ready, and stop it."""
    process = subprocess.Popen(
        [*map(str, command), "serve", "--listen", "127.0.0.1:0"],
        cwd=ROOT.parent,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(READY)
        process.terminate()
    assert process.returncode == 0


def test_package_indexes_accept_the_files(distributions: Path, wheel: Path) -> None:
    run(BIN / "twine", "check", "--strict", *distributions.iterdir())
    run(BIN / "check-wheel-contents", wheel)


def test_the_links_of_the_package_lead_to_the_repository(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = archive.read(name).decode()
    assert f"Project-URL: Repository, {REPOSITORY}\n" in metadata
    links = re.findall(r"\]\(([^)]+)\)", metadata)
    in_repository = [link for link in links if link.startswith(f"{REPOSITORY}/blob/main/")]
    assert len(in_repository) > len(links) / 2
    assert all(link.startswith(("https://", "#")) for link in links)
    for link in in_repository:
        path = link.removeprefix(f"{REPOSITORY}/blob/main/").partition("#")[0]
        assert (ROOT / path).exists(), link


def test_files_are_complete(distributions: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "kafkalite/py.typed" in names
    assert any(name.endswith("share/man/man1/kafkalite.1") for name in names)
    assert any(name.startswith("kafkalite/protocol/specs/") for name in names)
    assert not [name for name in names if name.startswith("tests")]
    (source,) = distributions.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "docs/man/kafkalite.1"} <= sources
    # A clone may have environments, data directories and captures, whose names are not known.
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    always = {"", ".gitignore", "LICENSE", "PKG-INFO", "pyproject.toml"}
    assert {name.partition("/")[0] for name in sources} - always == {name[1:] for name in included}


def test_the_wheel_runs_from_a_clean_environment(installed: Path) -> None:
    assert run(installed / "kafkalite", "--version") == f"kafkalite {__version__}\n"
    assert run(installed / "python", "-m", "kafkalite", "--version").endswith(f"{__version__}\n")
    serve(installed / "kafkalite")
    assert "complete" in run(installed / "kafkalite", "completion", "bash")
    manual = installed.parent / "share" / "man" / "man1" / "kafkalite.1"
    assert manual.read_text(encoding="utf-8").startswith(".TH KAFKALITE")


def test_uvx_runs_the_wheel(wheel: Path) -> None:
    version = run(
        BIN / "uv", "--system-certs", "tool", "run", "--from", wheel, "kafkalite", "--version"
    )
    assert version == f"kafkalite {__version__}\n"


def test_one_file_runs_a_broker(wheel: Path, tmp_path: Path) -> None:
    file = tmp_path / "kafkalite.pyz"
    run(BIN / "shiv", "--console-script", "kafkalite", "--output-file", file, wheel)
    assert run(sys.executable, file, "--version") == f"kafkalite {__version__}\n"
    serve(sys.executable, file)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_with_each_version_of_python(
    wheel: Path, tmp_path: Path, version: str
) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} is installed; {PYTHONS} may name one")
    uv = (BIN / "uv", "--system-certs")
    environment = tmp_path / "environment"
    run(*uv, "venv", "--quiet", "--python", python, environment)
    installed = environment / "bin" / "python"
    packages = (f"{wheel}[security]", "aiokafka>=0.14", "kafka-python>=3.0")
    run(*uv, "pip", "install", "--quiet", "--python", installed, *packages)
    check = Path(__file__).parent / "self_check.py"
    assert run(installed, "-P", "-W", "error", check) == "exchanged 2 records\n"


def test_each_supported_version_of_python_is_tested() -> None:
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert set(VERSIONS) == set(re.findall(r"Programming Language :: Python :: (3\.\d+)", metadata))
