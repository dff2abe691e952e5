"""Adds a binary that is built already to the wheel: that of PHASEMETER_BINARY, and the bill of materials beside it."""

import os
import re
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The field `e_machine` of ELF, and the architecture in names of wheels.
ARCHITECTURES = {0x3E: "x86_64", 0xB7: "aarch64"}


class Binary(BuildHookInterface):
    def initialize(self, version, build_data):
        path = Path(os.environ["PHASEMETER_BINARY"]).resolve()
        binary = path.read_bytes()
        architecture = ARCHITECTURES[int.from_bytes(binary[18:20], "little")]
        # pip installs the wheel where glibc is not older than the newest version of a symbol that the binary needs.
        glibc = max(map(int, re.findall(rb"GLIBC_2\.(\d+)\0", binary)))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{glibc}_{architecture}"
        build_data["shared_scripts"][str(path)] = "phasemeter"
        build_data["sbom_files"] += map(str, path.parent.glob("phasemeter.cdx.json"))
