# SPDX-License-Identifier: Apache-2.0
"""Drive a headless Chromium through chromedriver, by the WebDriver protocol.

    with Browser(1280, 800) as browser:
        browser.open(path)
        browser.run("return document.title")

The browser has its own profile, which is removed when it is closed.
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

# WebDriver's codes of keys that have no character.
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Space": " ", "Home": "\ue011",
        "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014",
        "ArrowDown": "\ue015"}


def is_there():
    return bool(shutil.which("chromedriver") and shutil.which("chromium"))


class Browser:
    def __init__(self, width, height, dark=False, script=True):
        self.folder = tempfile.mkdtemp()
        self.driver, self.base = None, ""
        arguments = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
            f"--user-data-dir={self.folder}/profile", f"--window-size={width},{height}",
        ]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        if not script:
            arguments.append("--blink-settings=scriptEnabled=false")
        options = {"args": arguments, "binary": shutil.which("chromium")}
        try:
            self.start()
            made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL"}}}})
            self.base += "/session/" + made["sessionId"]
            self.size(width, height)
        except BaseException:
            self.close()
            raise

    def start(self):
        environment = dict(os.environ, HOME=self.folder, TMPDIR=self.folder)
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, env=environment, start_new_session=True)
        for line in self.driver.stdout:
            port = re.search(r"started successfully on port (\d+)", line)
            if port:
                self.base = "http://127.0.0.1:" + port[1]
                return
        raise OSError("chromedriver does not start")

    def close(self):
        if self.driver:
            try:
                self.call("DELETE", "", timeout=20)
            except (OSError, ValueError, AssertionError):
                pass  # no session exists
            # Kill the process group of chromedriver, with all browser processes.
            try:
                os.killpg(self.driver.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.driver.wait()
            self.driver.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, method, path, body=None, timeout=100):
        request = urllib.request.Request(
            self.base + path, method=method, headers={"Content-Type": "application/json"},
            data=json.dumps(body or {}).encode() if method == "POST" else None)
        # Use no proxy for connections within this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=timeout) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            told = json.load(error)["value"]
            raise AssertionError(told["error"] + ": " + told["message"]) from None

    # ---- actions of a reader ------------------------------------------------

    def open(self, path):
        self.call("POST", "/url", {"url": "file://" + os.path.abspath(path)})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": arguments})

    def keys(self, *keys):
        """Press keys one after another, in the focused element."""
        presses = []
        for key in keys:
            value = KEYS.get(key, key)
            presses += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self.call("POST", "/actions", {"actions": [
            {"type": "key", "id": "keyboard", "actions": presses}]})

    def pointer(self, *steps):
        """Move to each (x, y) of the window in turn; "down" and "up" press and release."""
        actions = []
        for step in steps:
            if step in ("down", "up"):
                actions.append({"type": "pointer" + step.title(), "button": 0})
            else:
                actions.append({"type": "pointerMove", "duration": 0, "x": int(step[0]),
                                "y": int(step[1])})
        self.call("POST", "/actions", {"actions": [
            {"type": "pointer", "id": "mouse", "actions": actions}]})

    def wheel(self, x, y, pixels):
        self.call("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [
            {"type": "scroll", "x": int(x), "y": int(y), "deltaX": 0, "deltaY": pixels}]}]})

    def command(self, name, **parameters):
        """Run a command of the DevTools protocol."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def size(self, width, height):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height,
                     deviceScaleFactor=1, mobile=False)

    def picture(self, path, top, bottom):
        """Write a PNG of the page between two heights."""
        width = self.run("return innerWidth")
        made = self.command(
            "Page.captureScreenshot", captureBeyondViewport=True,
            clip={"x": 0, "y": top, "width": width, "height": bottom - top, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(made["data"]))

    def told(self):
        """Return the browser's log messages since the last call."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]
