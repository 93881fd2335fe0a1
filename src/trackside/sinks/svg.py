"""Makes SVG that came from a rank harmless: an allow-list of shapes and looks, nothing that runs or loads."""

import re
from xml.etree import ElementTree as ET

import nh3

NAMESPACE = "http://www.w3.org/2000/svg"
MOST_CHARACTERS = 8 * 1024 * 1024

_DRAWN = (
    "svg g defs symbol use title desc path rect circle ellipse line polyline polygon text tspan textPath image marker "
    "linearGradient radialGradient stop clipPath mask pattern"
)
_LOOKS = (
    "id class style transform opacity display visibility overflow color fill fill-opacity fill-rule stroke stroke-width "
    "stroke-opacity stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit stop-color "
    "stop-opacity clip-path clip-rule mask marker-start marker-mid marker-end font-family font-size font-style "
    "font-weight font-variant text-anchor text-decoration dominant-baseline alignment-baseline baseline-shift "
    "letter-spacing word-spacing writing-mode paint-order vector-effect shape-rendering text-rendering role aria-label "
    "aria-hidden aria-labelledby"
)
_SHAPES = (
    "xmlns version viewBox preserveAspectRatio x y x1 y1 x2 y2 cx cy r rx ry fx fy width height d points dx dy rotate "
    "textLength lengthAdjust offset gradientUnits gradientTransform spreadMethod clipPathUnits maskUnits "
    "maskContentUnits patternUnits patternContentUnits patternTransform markerUnits markerWidth markerHeight orient "
    "refX refY startOffset href"
)
TAGS = frozenset(_DRAWN.split())
ATTRIBUTES = frozenset(f"{_LOOKS} {_SHAPES}".split())
STYLES = frozenset(name for name in _LOOKS.split() if name not in ("id", "class", "style", "role")) | {"font"}
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*\Z")
_URL = re.compile(r"url\s*\(\s*(?![\"']?#)|@import|expression\s*\(|\\", re.IGNORECASE)


def clean_svg(text: str) -> str | None:
    """Return the drawing without scripts, handlers, foreign content, links and anything loaded from elsewhere.

    Returns:
        Text that begins with `<svg`, well-formed XML; None when it holds no drawing or is larger than 8 million
        characters.
    """
    if len(text) > MOST_CHARACTERS:
        return None
    cleaned = nh3.clean(
        text,
        tags=set(TAGS),
        clean_content_tags={"script", "style", "foreignObject"},
        attributes={"*": set(ATTRIBUTES)},
        attribute_filter=_keep_attribute,
        filter_style_properties=set(STYLES),
        url_schemes={"data"},
        link_rel=None,
        strip_comments=True,
    )
    start = cleaned.find("<svg")
    if start < 0:
        return None
    drawing = cleaned[start:].replace("&nbsp;", "&#160;").replace(" xlink:href=", " href=")
    if f'xmlns="{NAMESPACE}"' not in drawing[: drawing.index(">")]:
        drawing = f'<svg xmlns="{NAMESPACE}"' + drawing[len("<svg") :]
    drawing = _without_controls(drawing)
    for find in (str.rfind, str.find):  # all of it, or, where several stand side by side, the first
        whole = drawing[: find(drawing, "</svg>") + len("</svg>")]
        if _is_xml(whole):
            return whole
    return None


def _is_xml(text: str) -> bool:
    try:
        ET.fromstring(text)
    except ET.ParseError:
        return False
    return True


def _keep_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        is_inside = value.startswith("#")
        return value if is_inside or (tag == "image" and _PICTURE.match(value)) else None
    if name == "xmlns":
        return value if value == NAMESPACE else None
    return None if _URL.search(value) else value


def _without_controls(text: str) -> str:
    """XML holds no control characters but tab and line ends."""
    return "".join(c for c in text if c >= " " or c in "\t\n\r")
