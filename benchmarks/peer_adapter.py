"""Trackside as one more entrant of the peer harness: eight ranks find one controller as under a plain torchrun."""

import glob
import os

from adapters import Base


class Peer(Base):
    """Runs inside the harness's own Python, which must have trackside installed."""

    dist = "trackside"
    imports = "import trackside; trackside.Monitor"
    has_server = True
    shared_run = True

    def env(self):
        return {"TRACKSIDE_DIR": self._runs, "TRACKSIDE_NAME": "bench", "MASTER_PORT": str(os.getpid())}

    @property
    def _runs(self):
        return os.path.join(self.root, "runs")

    def start(self, run="bench", rank=0, world=1):
        if world > 1:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
            os.environ.update(MASTER_ADDR="127.0.0.1", TORCHELASTIC_RUN_ID=run)
        import trackside

        self.monitor = trackside.Monitor(name=run)

    def log(self, step, metrics):
        self.monitor.log(metrics, step=step)

    def finish(self):
        self.monitor.finish()

    def read(self, key, run="bench"):
        if not hasattr(self, "rows"):
            from trackside.store import read_points

            self.rows = {}
            for folder in glob.glob(os.path.join(self._runs, "*", "")):
                for name, step, value in read_points(folder):
                    self.rows.setdefault(name, []).append((step, value))
        return self.rows.get(key, [])

    def serve(self, port, python):
        (folder,) = glob.glob(os.path.join(self._runs, "*", ""))
        return [python, "-m", "trackside", "view", folder, "--port", str(port)]

    def series(self, http, key, run="bench"):
        import json

        body = http(f"/api/v1/series?metric={key}&path=root&points=1000")
        return json.loads(body)["x"], len(body)
