"""The page's own files."""

import re
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from trackside.server.answers import AnswerError, accepts_gzip
from trackside.server.assets import Asset
from trackside.server.built import INDEX

PREFIX = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+")
"""What may stand in front of the page: the path of a URL, and never the name of another host."""


class Page:
    """Serves the built page."""

    def __init__(self, assets: Mapping[str, Asset]) -> None:
        self._assets = assets

    async def index(self, request: Request) -> Response:
        """The page; behind a proxy that took the final slash away, first a redirect to the address with it."""
        prefix = request.headers.get("x-forwarded-prefix", "").rstrip("/")
        asked = request.headers.get("x-forwarded-uri") or request.headers.get("x-original-uri") or ""
        path, _, query = asked.partition("?")
        if path == prefix and PREFIX.fullmatch(prefix):
            return RedirectResponse(f"{prefix}/" + (f"?{query}" if query else ""), 307)
        return self._answer(request, self._assets[INDEX])

    async def file(self, request: Request) -> Response:
        """One file. Only paths that were found when the server started exist, so none leads out of the folder."""
        path = request.path_params["path"]
        asset = self._assets.get(path)
        if asset is None:
            raise AnswerError(404, "not_found", f"There is nothing at {request.url.path!r}.")
        return self._answer(request, asset)

    @staticmethod
    def _answer(request: Request, asset: Asset) -> Response:
        headers = {
            "ETag": asset.etag,
            "Vary": "Accept-Encoding",
            "Cache-Control": "public, max-age=31536000, immutable" if asset.immutable else "no-cache",
        }
        if asset.etag in (
            tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")
        ):
            return Response(status_code=304, headers=headers)
        headers["Content-Type"] = asset.media_type
        if asset.compressed is not None and accepts_gzip(request):
            return Response(asset.compressed, headers={**headers, "Content-Encoding": "gzip"})
        return Response(asset.content, headers=headers)
