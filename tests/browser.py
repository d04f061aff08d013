"""Pages in a real browser without a window: what is in them after they were laid out, and how they look."""

import html
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT = 120
SCRIPT = """
<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const root = document.documentElement;
  const cells = (row) => [...row.cells].map((cell) => cell.textContent);
  const seen = {
    width: innerWidth,
    needed: Math.max(root.scrollWidth, document.body.scrollWidth,
      ...[...document.querySelectorAll("h1, h2, h3, p, li, figure, summary, pre, .scroll, img")].map(
        (each) => Math.ceil(each.getBoundingClientRect().right))),
    dark: [...document.querySelectorAll("picture")].map(
      (each) => each.querySelector("img").currentSrc === each.querySelector("source").srcset),
    broken: [...document.images].filter((image) => !image.naturalWidth).length,
    tables: [...document.querySelectorAll("table")].map((table) => [...table.rows].map(cells)),
    ends: [...document.querySelectorAll("table")].map(
      (table) => [...table.rows[0].cells].map((cell) => Math.ceil(cell.getBoundingClientRect().right))),
    scrolled: [...document.querySelectorAll(".scroll")].filter((each) => each.scrollWidth > each.clientWidth).length,
  };
  parent.document.body.textContent = JSON.stringify(seen);
});
</script>
"""


@dataclass(frozen=True)
class Browser:
    """Chromium, by the name of its program."""

    program: str

    def measure(self, page: Path, folder: Path, width: int, dark: bool) -> dict[str, Any]:
        """What a script finds in a copy of the page that lets it run; in a frame, for no window is so narrow."""
        text = page.read_text(encoding="utf-8")
        policy = '<meta http-equiv="Content-Security-Policy"'
        assert policy in text
        text = html.escape(text.replace(policy, "<meta name=none").replace("</body>", SCRIPT + "</body>"))
        frame = f'<meta charset="utf-8"><iframe width="{width}" height="900" style="border:0" srcdoc="{text}"></iframe>'
        outer = folder / f"frame-{width}.html"
        outer.write_text(frame, encoding="utf-8")
        body = self.dom(outer, width + 100, dark).partition("<body>")[2].partition("</body>")[0]
        return json.loads(html.unescape(body))

    def dom(self, page: Path, width: int, dark: bool) -> str:
        """The page as it is after it was loaded."""
        return self._run(page, width, dark, "--dump-dom")

    def colors(self, page: Path, folder: Path, width: int, dark: bool) -> list[tuple[tuple[int, ...], float]]:
        """The colours of the first 2,000 rows of pixels and their shares, the most frequent first."""
        from PIL import Image

        picture = folder / f"picture-{width}.png"
        self._run(page, width, dark, "--hide-scrollbars", f"--screenshot={picture}")
        with Image.open(picture) as image:
            assert image.width == width
            counts = image.convert("RGB").getcolors(image.width * image.height)
        return [(color, count / (width * image.height)) for count, color in sorted(counts, reverse=True)]

    def _run(self, page: Path, width: int, dark: bool, *options: str) -> str:
        command = [
            self.program, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000",
            f"--window-size={width},2000", f"--blink-settings=preferredColorScheme={0 if dark else 1}", *options,
            page.absolute().as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
