"""Pages of reports: HTML that contains its styles and pictures, and the colors of all figures."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import Any

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
"""The palette of Okabe and Ito, which people with color blindness can distinguish."""

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #8888; }
img { max-width: 100%; height: auto; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


def html_page(title: str, summary: str, body: str) -> bytes:
    """Return an HTML page; ``title`` and ``summary`` are plain text, ``body`` is HTML."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1><p>{escape(summary)}</p>\n{body}\n</body></html>\n"
    ).encode()


def html_image(figure: Any, text: str) -> str:
    """Return an HTML image that contains a Matplotlib figure; ``text`` is its alternative text."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{data}">'
