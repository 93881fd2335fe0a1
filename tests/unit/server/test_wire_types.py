import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]


def load(script: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(script, ROOT / "scripts" / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_types_are_those_of_the_answers():
    wire_types = load("wire_types")
    assert wire_types.TARGET.read_text(encoding="utf-8") == wire_types.generate(), "run python scripts/wire_types.py"


def test_a_changed_field_would_be_seen():
    wire_types = load("wire_types")
    assert "  eta_seconds: number | null;\n" in wire_types.generate()
    assert "  mean: JsonNumber[];\n" in wire_types.generate()
    assert "  non_finite: [JsonNumber, string][];\n" in wire_types.generate()
