"""Starts TensorBoard on what tests/oracle/write_summaries.cc writes, and looks at it as a person would.

    tensorboard_page.py DIR SCREENSHOTS [BROWSER]

With BROWSER, a Chromium: opens each dashboard without a window, waits for the texts that it must show, and keeps a picture
of it, SCREENSHOTS/<dashboard>.png. Without: asks the server for the data that the page would draw. Exit code 1 if something
is not there.
"""

import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

PATIENCE = 60  # seconds for each thing that must come

# What each dashboard must show; long names of nodes end early. The first one folds most groups of tags, unless they are searched for.
SEARCHED = "train|dense1"
DASHBOARDS = {
    "timeseries": ["train/loss", "train/accuracy", "dense1/kernel", "global", "local"],
    "scalars": ["train/loss", "train/accuracy", "thread/0"],
    "graphs": ["dense1", "dense2", "images", "labels", "outputs", "write_summ"],
    "histograms": ["dense1/kernel"],
    "images": ["images/grey", "images/rgb", "images/three", "sample: 2 of 3"],
    "text": ["notes", "a network of two layers, größer als eine"],
}

# The text of the page, that of its shadow trees included, and the words in drawings.
PAGE_TEXT = """(() => {
  const texts = [];
  const walk = node => {
    if (node.nodeType === Node.TEXT_NODE) texts.push(node.textContent);
    if (node.nodeType === Node.ELEMENT_NODE) {
      if (["SCRIPT", "STYLE", "TEMPLATE"].includes(node.tagName)) return;
      if (node.shadowRoot) walk(node.shadowRoot);
    }
    node.childNodes.forEach(walk);
  };
  walk(document.body);
  return texts.join("").replace(/\\s+/g, " ");
})()"""

# How many images have been decoded.
LOADED_IMAGES = """(() => {
  let count = 0;
  const walk = node => {
    if (node.shadowRoot) walk(node.shadowRoot);
    if (node.tagName === "IMG" && node.complete && node.naturalWidth > 1) ++count;
    node.childNodes.forEach(walk);
  };
  walk(document.body);
  return count;
})()"""


def fail(message):
    print(f"tensorboard_page: {message}: FAILED")
    sys.exit(1)


def wait_for(what, attempt):
    """Until attempt() gives something true, which it returns."""
    deadline = time.monotonic() + PATIENCE
    while True:
        result = attempt()
        if result:
            return result
        if time.monotonic() > deadline:
            fail(f"{what} did not come within {PATIENCE} s")
        time.sleep(0.25)


class Server:
    """TensorBoard, at a port that the system chooses."""

    def __init__(self, logs, folder):
        self.log = pathlib.Path(folder) / "tensorboard.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tensorboard.main", "--logdir", str(logs), "--host", "127.0.0.1", "--port", "0",
                 "--reload_interval", "1"], stdout=log, stderr=log)
        self.url = wait_for("TensorBoard", self.find_url)

    def find_url(self):
        if self.process.poll() is not None:
            fail(f"TensorBoard ended:\n{self.log.read_text()}")
        found = re.search(r"at (http://[^ ]+:\d+)/", self.log.read_text())
        return found and found.group(1)

    def get(self, path):
        with urllib.request.urlopen(f"{self.url}/data/{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Browser:
    """A Chromium without a window, told by its DevTools protocol over two pipes (--remote-debugging-pipe)."""

    def __init__(self, program, folder):
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()

        def connect():
            # One of them may be 3 or 4 itself.
            read, write = os.dup(to_read), os.dup(to_write)
            os.dup2(read, 3)
            os.dup2(write, 4)

        with (pathlib.Path(folder) / "browser.log").open("w") as log:
            self.process = subprocess.Popen(
                [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--remote-debugging-pipe", f"--user-data-dir={folder}/profile"],
                stdout=log, stderr=log, close_fds=False, preexec_fn=connect)
        os.close(to_read)
        os.close(to_write)
        self.held = b""
        self.count = 0
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        # Dashboards draw what is in view.
        self.call("Emulation.setDeviceMetricsOverride", width=1500, height=1600, deviceScaleFactor=1, mobile=False)
        self.call("Page.enable")

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") != self.count:
                continue  # an event
            if "error" in answer:
                fail(f"{method}: {answer['error']}")
            return answer["result"]

    def receive(self):
        while b"\0" not in self.held:
            more = os.read(self.back, 1 << 20)
            if not more:
                fail("the browser ended")
            self.held += more
        message, self.held = self.held.split(b"\0", 1)
        return json.loads(message)

    def evaluate(self, script):
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def open(self, url):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def look(server, browser, screenshots):
    for dashboard, texts in DASHBOARDS.items():
        browser.open(f"{server.url}/?tagFilter={urllib.parse.quote(SEARCHED)}#{dashboard}")
        missing = []

        def shows_all():
            page = browser.evaluate(PAGE_TEXT) or ""
            missing[:] = [text for text in texts if text not in page]
            return not missing

        deadline = time.monotonic() + PATIENCE
        while not shows_all():
            if time.monotonic() > deadline:
                browser.screenshot(screenshots / f"{dashboard}.png")
                fail(f"the dashboard {dashboard} does not show {missing}; it says: {browser.evaluate(PAGE_TEXT)[:2000]}")
            time.sleep(0.25)
        if dashboard == "images":
            wait_for("images", lambda: browser.evaluate(LOADED_IMAGES) >= 3)
        time.sleep(2)  # what moves comes to rest
        browser.screenshot(screenshots / f"{dashboard}.png")
        print(f"{dashboard}: shows {', '.join(texts)}")


def ask(server):
    def tags(plugin):
        return {tag for run in json.loads(server.get(f"plugin/{plugin}/tags")).values() for tag in run}

    for plugin, wanted in {"scalars": {"train/loss", "train/accuracy", "thread/0"}, "histograms": {"dense1/kernel"},
                           "images": {"images/grey", "images/rgb", "images/three"}, "text": {"notes"}}.items():
        wait_for(f"{plugin}: {wanted}", lambda: wanted <= tags(plugin))
        print(f"{plugin}: the server has {', '.join(sorted(wanted))}")
    points = json.loads(server.get("plugin/scalars/scalars?run=global&tag=train%2Floss"))
    if len(points) != 100 or points[3][1:] != [4, 1.25]:
        fail(f"train/loss is {points[:5]}")
    resumed = json.loads(server.get("plugin/scalars/scalars?run=resumed&tag=train%2Fresumed"))
    if [point[1:] for point in resumed] != [[step, 1.0 if step < 5 else 2.0] for step in range(1, 7)]:
        fail(f"train/resumed is {resumed}")
    graph = wait_for("the graph", lambda: server.get("plugin/graphs/graph?run=global"))
    for name in ("dense1/kernel", "images", "outputs/loss"):
        if f'name: "{name}"' not in graph:
            fail(f"the graph has no {name}")
    print("graphs: the server has the program")


def main():
    logs, screenshots = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        server = Server(logs, folder)
        try:
            ask(server)
            if len(sys.argv) < 4:
                print("no browser: the page was not looked at")
                return
            screenshots.mkdir(parents=True, exist_ok=True)
            browser = Browser(sys.argv[3], folder)
            try:
                look(server, browser, screenshots)
            finally:
                browser.stop()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
