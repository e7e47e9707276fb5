"""A headless Chromium, driven over the WebDriver protocol on loopback; nothing but the standard library.

The browser gets a profile of its own, opens files only, and can resolve no name: whatever it wants of a network
fails.
"""
import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

BROWSER, DRIVER = "chromium", "chromedriver"
START_SECONDS = 60
POLL_SECONDS = 0.05
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's reference, by the protocol

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--force-device-scale-factor=1",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")


class BrowserError(Exception):
    """The driver refused a command; the text is its own."""


def why_no_browser():
    """None when there is a browser and its driver, else the reason."""
    missing = [name for name in (BROWSER, DRIVER) if not shutil.which(name)]
    return f"{' and '.join(missing)} is not installed" if missing else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Browser:
    """One window. Use it with `with`: it ends with its profile and its driver."""

    def __init__(self, width=1280, height=900, dark=False):
        self.profile = tempfile.mkdtemp(prefix="hdtrace-browser-")
        self.port = free_port()
        self.driver = subprocess.Popen([DRIVER, f"--port={self.port}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.profile})
        self.session = None
        try:
            self._begin(width, height, dark)
        except BaseException:
            self.close()
            raise

    def _begin(self, width, height, dark):
        arguments = [*ARGUMENTS, f"--window-size={width},{height}", f"--user-data-dir={self.profile}"]
        if dark:
            arguments.append("--force-dark-mode")
        options = {"args": arguments, "binary": shutil.which(BROWSER)}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options,
                                                   "goog:loggingPrefs": {"browser": "ALL"}}}}
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.session = self._send("POST", "/session", wanted)["sessionId"]
                return
            except (OSError, urllib.error.URLError):
                if time.monotonic() > deadline or self.driver.poll() is not None:
                    raise
                time.sleep(POLL_SECONDS)

    def _send(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the environment's proxy is no loopback
        try:
            with opener.open(request, timeout=START_SECONDS * 2) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise BrowserError(f"{value['error']}: {value['message']}") from None

    def _command(self, method, path, body=None):
        return self._send(method, f"/session/{self.session}{path}", body)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.session:
            try:
                self._command("DELETE", "")
            except (OSError, BrowserError):
                pass
        self.driver.terminate()
        self.driver.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    # --- the page ---------------------------------------------------------------------------

    def open(self, path):
        """Show a file."""
        self._command("POST", "/url", {"url": "file://" + urllib.request.pathname2url(os.path.abspath(path))})

    def run(self, script, *arguments):
        """The value of a function's body in the page."""
        return self._command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, expression, what, seconds=60):
        """The value of an expression as soon as it is true."""
        deadline = time.monotonic() + seconds
        while True:
            value = self.run(f"return {expression}")
            if value:
                return value
            if time.monotonic() > deadline:
                raise BrowserError(f"not within {seconds} s: {what}; the page says: {self.text('#status')}")
            time.sleep(POLL_SECONDS)

    def log(self):
        """Errors and messages of the page since the last call."""
        return [entry["message"] for entry in self._command("POST", "/se/log", {"type": "browser"})]

    def element(self, selector):
        return self._command("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(element => element.textContent)", selector)

    def data(self, selector):
        """The data attributes of an element, as a dictionary of texts."""
        return self.run("return {...document.querySelector(arguments[0]).dataset}", selector)

    def all_data(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(element => ({...element.dataset}))", selector)

    def screenshot(self, path, whole=False):
        if whole:
            height = self.run("return document.documentElement.scrollHeight")
            self._command("POST", "/window/rect", {"width": 1280, "height": min(height + 10, 8000)})
        with open(path, "wb") as out:
            out.write(base64.b64decode(self._command("GET", "/screenshot")))

    # --- what a person does -----------------------------------------------------------------------

    def click(self, selector):
        self._command("POST", f"/element/{self.element(selector)}/click", {})

    def type(self, selector, text):
        element = self.element(selector)
        self._command("POST", f"/element/{element}/clear", {})
        self._command("POST", f"/element/{element}/value", {"text": text})

    def choose(self, selector, value):
        self.run("const select = document.querySelector(arguments[0]); select.value = arguments[1];"
                 "select.dispatchEvent(new Event('change', {bubbles: true}));", selector, value)

    def pointer(self, selector, *steps, keys=()):
        """Pointer actions on an element: ("move", x, y) from its top left corner, ("down",), ("up",)."""
        box = self.run("const element = document.querySelector(arguments[0]); element.scrollIntoView({block: 'center'});"
                       "const box = element.getBoundingClientRect(); return [box.left, box.top]", selector)
        actions = []
        for step in steps:
            if step[0] == "move":
                actions.append({"type": "pointerMove", "duration": 0, "x": round(box[0] + step[1]), "y": round(box[1] + step[2])})
            else:
                actions.append({"type": "pointerDown" if step[0] == "down" else "pointerUp", "button": 0})
        sources = [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}]
        if keys:
            pauses = [{"type": "pause"}] * (len(actions) - 1)
            held = [{"type": "keyDown", "value": key} for key in keys] + pauses
            sources.insert(0, {"type": "key", "id": "keyboard", "actions": held})
        self._command("POST", "/actions", {"actions": sources})
        self._command("DELETE", "/actions")

    def wheel(self, selector, x, y, down):
        box = self.run("const box = document.querySelector(arguments[0]).getBoundingClientRect(); return [box.left, box.top]", selector)
        action = {"type": "scroll", "x": round(box[0] + x), "y": round(box[1] + y), "deltaX": 0, "deltaY": down, "duration": 0}
        self._command("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [action]}]})

    def press(self, *keys):
        """Keys, by name or character, on what has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._command("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})
