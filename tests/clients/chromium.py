"""A headless Chromium that a test drives over a pipe, by the DevTools protocol."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64decode
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from tests.oracle.requirements import program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_TIMEOUT_S: Final = 20
_STEP_MS: Final = 50
_COMMANDS_FD, _ANSWERS_FD = 3, 4
"""File descriptors that Chromium has for --remote-debugging-pipe."""
_KEYS: Final = {"Tab": (9, ""), "Enter": (13, "\r")}
"""The code and the text of keys."""


class PageError(Exception):
    """A page failed to do something."""


class Browser:
    """A running Chromium, and the messages on its pipe."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._received = b""
        self._number = 0
        self.events: list[Mapping[str, Any]] = []
        """Events that have been received."""

    def new_tab(self) -> Tab:
        """Open a tab that shares no cookies with others."""
        context = self.send("Target.createBrowserContext", None)["browserContextId"]
        target = self.send("Target.createTarget", None, url="about:blank", browserContextId=context)
        attached = self.send(
            "Target.attachToTarget", None, targetId=target["targetId"], flatten=True
        )
        return Tab(self, attached["sessionId"])

    def send(self, method: str, session: str | None, **parameters: object) -> Mapping[str, Any]:
        """Return the answer to a command; raises PageError for a refusal."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            received = self._receive()
            if received.get("id") == self._number:
                if "error" in received:
                    raise PageError(received["error"])
                answer: Mapping[str, Any] = received["result"]
                return answer
            self.events.append(received)

    def _receive(self) -> Mapping[str, Any]:
        while b"\0" not in self._received:
            data = os.read(self._answers, 1 << 16)
            assert data, "Chromium has ended"
            self._received += data
        message, _, self._received = self._received.partition(b"\0")
        received: Mapping[str, Any] = json.loads(message)
        return received


class Tab:
    """A tab of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        for domain in ("Page", "Runtime", "Log"):
            self._send(f"{domain}.enable")

    def _send(self, method: str, **parameters: object) -> Mapping[str, Any]:
        return self._browser.send(method, self._session, **parameters)

    def errors(self) -> list[str]:
        """Return the errors in the console of the page: of scripts, and of the security policy."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded":
                entry = event["params"]["entry"]
                found += [entry["text"]] if entry["level"] == "error" else []
        return found

    def open(self, url: str) -> None:
        """Load a page."""
        self._send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:  # noqa: ANN401 - any value of JSON
        """Return the value of an expression or a promise; raises PageError if it fails."""
        answer = self._send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise PageError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a condition is true, also in a page that is loaded meanwhile."""
        deadline = perf_counter() + _TIMEOUT_S
        script = f"new Promise((done) => setTimeout(() => done(Boolean({condition})), {_STEP_MS}))"
        while perf_counter() < deadline:
            try:
                if self.evaluate(script):
                    return
            except PageError:  # the page has been replaced
                continue
        raise AssertionError(f"{condition}: {self.text()[:2000]}")

    def wait_for_text(self, text: str) -> None:
        """Wait until the page has a text."""
        self.wait(f"document.body.textContent.includes({json.dumps(text)})")

    def text(self) -> str:
        """Return the text of the page."""
        return str(self.evaluate("document.body.innerText"))

    def show_as(self, width: int, height: int, *, is_dark: bool = False) -> None:
        """Change the size of the window and the theme of the system."""
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.prefer("prefers-color-scheme", "dark" if is_dark else "light")

    def prefer(self, name: str, value: str) -> None:
        """Set a feature of media queries, in place of those that were set before."""
        self._send("Emulation.setEmulatedMedia", features=[{"name": name, "value": value}])

    def press(self, key: str) -> None:
        """Press and release Tab, Enter, or the key of a character."""
        code, text = _KEYS.get(key, (ord(key[0].upper()), key))
        event = {"key": key, "windowsVirtualKeyCode": code}
        self._send("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self._send("Input.dispatchKeyEvent", type="keyUp", **event)

    def picture(self, path: Path) -> None:
        """Write a picture of the window, in the format of the file's extension."""
        name = path.suffix.removeprefix(".")
        path.write_bytes(b64decode(self._send("Page.captureScreenshot", format=name)["data"]))


@contextmanager
def chromium(directory: Path) -> Iterator[Browser]:
    """Start Chromium with a profile in a directory, and yield it."""
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    redirections = f"{_COMMANDS_FD}<&{commands_out} {_ANSWERS_FD}>&{answers_in}"
    options = (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
        "--remote-debugging-pipe", f"--user-data-dir={directory}",
    )  # fmt: skip
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" {redirections}', "bash", program("chromium"), *options],
        pass_fds=(commands_out, answers_in),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(commands_out)
    os.close(answers_in)
    try:
        yield Browser(commands_in, answers_out)
    finally:
        process.kill()
        process.wait()
        os.close(commands_in)
        os.close(answers_out)
