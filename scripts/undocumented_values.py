#!/usr/bin/env python3
"""undocumented_values.py XML: prints the enumerators and classes that have no line of documentation, from Doxygen's XML:
of the former it does not warn, nor of a class whose base has one. Specialisations have their template's."""
import pathlib
import sys
import xml.etree.ElementTree

files = sorted(pathlib.Path(sys.argv[1]).glob("*.xml"))
if not files:
    sys.exit(f"error: no XML in {sys.argv[1]}")


def described(element):
    return any("".join(element.find(part).itertext()).strip() for part in ("briefdescription", "detaileddescription"))


def public(name):
    return "<" not in name and not any(part in ("detail", "std") for part in name.split("::"))


for file in files:
    tree = xml.etree.ElementTree.parse(file)
    for one in tree.iter("compounddef"):
        name = one.findtext("compoundname")
        if one.get("kind") in ("class", "struct", "union") and one.get("prot") == "public" and public(name) and not described(one):
            where = one.find("location").attrib
            print(f"{where['file']}:{where['line']}: warning: {name} is not documented.")
    for member in tree.iter("memberdef"):
        if member.get("prot") != "public":
            continue
        where = member.find("location").attrib
        for value in member.iter("enumvalue"):
            if not described(value):
                print(f"{where['file']}:{where['line']}: warning: {member.findtext('name')}::{value.findtext('name')} is not documented.")
