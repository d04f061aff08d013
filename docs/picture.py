"""Takes page.png, the README's picture of the page of `elmo explore`: `make picture`. Needs Chromium."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).with_name("page.png")
WIDTH = 1100


def main() -> None:
    command = [sys.executable, "-m", "elmo", "explore", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        take(address[0])
    finally:
        server.terminate()
        server.wait()


def take(address: str) -> None:
    """The first section, from the title of the page to the end of the picture and its numbers."""
    with sync_playwright() as driver:
        program = shutil.which(os.environ.get("ELMO_CHROMIUM", "chromium"))
        window = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = window.new_page(viewport={"width": WIDTH, "height": 900})
        page.goto(address)
        page.wait_for_selector("#uses .point")
        top = page.locator("h1").bounding_box()
        end = page.locator(".stage").bounding_box()
        assert top is not None
        assert end is not None
        height = end["y"] + end["height"] - top["y"]
        page.screenshot(path=PICTURE, full_page=True, clip={"x": 0, "y": top["y"], "width": WIDTH, "height": height})
        window.close()
    with Image.open(PICTURE) as image:
        image.convert("RGB").quantize(128).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
