"""Names and values that other tools stumble over."""

import math

VALUES = [
    *(0.1, 1 / 3, -0.0, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308),
    *(math.nan, math.inf, -math.inf, float(2**53), -1e-300),
]
NAMES = [
    *("loss", "mean@1", "timing(s)/gen", "a:b", "a/b/c", "/lead", "trail/", "f1-score", "größe 🦊", "\u202eevil"),
    *("<b>x</b>", "=1+1", "a,b", 'a"b', "a\nb", "a\r\nb", "a\rb", "'", "\\", "%2F..", "../../etc/passwd", " ", "\t"),
    *("\x00", "\x7f", "__proto__", "constructor", "toString", "10", "9", "NaN", "null", "\ufeffmark", "e\u0301", "é"),
    *("💥" * 500, "n" * 16384),
]
UNSENDABLE = {"\ud800lone": "?lone"}
"""Names that UTF-8 cannot hold, and what is sent for them."""
STEPS = [-(2**63), -7, 0, 3, 2**53 + 1, 2**63 - 1]
