#!/usr/bin/env python3
"""undocumented_values.py XML: prints the enumerators that have no line of documentation, from Doxygen's XML, which does
not warn of them."""
import pathlib
import sys
import xml.etree.ElementTree

files = sorted(pathlib.Path(sys.argv[1]).glob("*.xml"))
if not files:
    sys.exit(f"error: no XML in {sys.argv[1]}")
for file in files:
    for member in xml.etree.ElementTree.parse(file).iter("memberdef"):
        if member.get("prot") != "public":
            continue
        where = member.find("location").attrib
        for value in member.iter("enumvalue"):
            if not any("".join(value.find(part).itertext()).strip() for part in ("briefdescription", "detaileddescription")):
                print(f"{where['file']}:{where['line']}: warning: {member.findtext('name')}::{value.findtext('name')} is not documented.")
