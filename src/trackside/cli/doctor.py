"""`trackside doctor`: why is it silent?"""

import os
import sys
from collections.abc import Sequence

import msgspec

from trackside.cli.checks import Finding, all_findings
from trackside.cli.parser import Parser

SUMMARY = "find out why a script is silent: environment, link, port, GPU libraries"


def main(arguments: Sequence[str]) -> int:
    """Run the command; 1 when something is broken."""
    parser = Parser("doctor", SUMMARY)
    parser.add_argument("--json", action="store_true", help="findings as JSON")
    options = parser.parse_args(list(arguments))
    findings = list(all_findings(os.environ))
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode() + "\n")
    else:
        for finding in findings:
            print(_text(finding))
    return 1 if any(finding.status == "fail" for finding in findings) else 0


def _text(finding: Finding) -> str:
    line = f"  {finding.status:<4}  {finding.check:<10}  {finding.text}"
    return f"{line}\n{'':20}{finding.advice}" if finding.advice else line
