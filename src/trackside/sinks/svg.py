"""Makes SVG that came from a rank harmless: an allow-list of shapes and looks, nothing that runs, loads or swells."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import nh3

NAMESPACE = "http://www.w3.org/2000/svg"
MOST_CHARACTERS = 8 * 1024 * 1024
MOST_UNTIDY_CHARACTERS = 64 * 1024
"""Of a drawing that is no XML, only HTML: to repair that takes time that grows with its square."""
MOST_ELEMENTS = 100_000
MOST_ATTRIBUTES = 64
MOST_DEPTH = 128
MOST_DRAWN = 200_000
"""Elements a browser would draw, each as often as something refers to it."""

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
_URL = re.compile(
    r"url\s*\(\s*(?![\"']?#)|@import|expression\s*\(|\\|(?:image|image-set|cross-fade|element|src)\s*\(", re.IGNORECASE
)
_REFERENCE = re.compile(r"url\s*\(\s*[\"']?#([^\"')\s]+)", re.IGNORECASE)


def clean_svg(text: str) -> str | None:
    """Return the drawing without scripts, handlers, foreign content, links and anything loaded from elsewhere.

    Returns:
        Text that begins with `<svg`, well-formed XML; None when it holds no drawing, or one beyond the limits: of
        characters, of elements, of attributes, of depth, or of what there is to draw once every reference is followed.

    Blocks: seconds at most, for the largest drawings.
    """
    tidy = _tidy(text) if len(text) <= MOST_CHARACTERS else None
    if tidy is None:
        return None
    cleaned = nh3.clean(
        tidy,
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
        root = _parsed(whole)
        if root is not None:
            return whole if _drawn(root) <= MOST_DRAWN else None
    return None


class _TooMuchError(ValueError):
    """More than a drawing may have."""


class _Measured(ET.TreeBuilder):
    """Builds the tree, and stops when it gets too large."""

    def __init__(self) -> None:
        super().__init__()
        self._elements = self._depth = 0

    def start(self, tag: str, attrs: dict[str, str]) -> ET.Element:
        self._elements += 1
        self._depth += 1
        if self._elements > MOST_ELEMENTS or self._depth > MOST_DEPTH or len(attrs) > MOST_ATTRIBUTES:
            raise _TooMuchError
        return super().start(tag, attrs)

    def end(self, tag: str) -> ET.Element:
        self._depth -= 1
        return super().end(tag)


def _parsed(text: str) -> ET.Element | None:
    """The tree; None where the text is no XML. Raises: _TooMuchError."""
    parser = ET.XMLParser(target=_Measured())  # entities of a document type swell no further than expat lets them
    try:
        parser.feed(text)
        root: ET.Element = parser.close()
    except ET.ParseError:
        return None
    return root


def _tidy(text: str) -> str | None:
    """The drawing without prolog, comments and entities; as it is where it is small and no XML; None beyond the limits."""
    try:
        root = _parsed(text)
    except _TooMuchError:
        return None
    if root is None:
        return text if len(text) <= MOST_UNTIDY_CHARACTERS else None
    for element in list(root.iter()):
        element.tag = element.tag.removeprefix(f"{{{NAMESPACE}}}")
        element.attrib = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        for child in list(element):
            if child.tag.startswith("{") and not child.tag.startswith(f"{{{NAMESPACE}}}"):
                element.remove(child)  # an editor's own, or another language's
    return ET.tostring(root, encoding="unicode", short_empty_elements=False)


def _drawn(root: ET.Element) -> float:
    """How many elements are drawn when each `use`, pattern, mask and marker is drawn wherever it is referred to."""
    named = {element.attrib["id"]: element for element in root.iter() if "id" in element.attrib}
    counted: dict[str, float] = {}

    def weight(element: ET.Element, above: frozenset[str]) -> float:
        total = 0.0
        for part in element.iter():
            total += 1 + sum(of(name, above) for name in _references(part))
            if total > MOST_DRAWN:
                return total
        return total

    def of(name: str, above: frozenset[str]) -> float:
        if name in above or name not in named:
            return 0.0  # a ring of references is an error, which browsers leave out
        if len(above) >= MOST_DEPTH:
            return MOST_DRAWN + 1.0
        if name not in counted:
            counted[name] = weight(named[name], above | {name})
        return counted[name]

    return weight(root, frozenset())


def _references(element: ET.Element) -> Iterator[str]:
    for name, value in element.attrib.items():
        if name == "href":
            yield value.removeprefix("#")
        elif "#" in value:
            yield from _REFERENCE.findall(value)


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
