#!/usr/bin/env python3
"""book.py prepare FOLDER: what Sphinx makes the book of (scripts/docs.sh). Every page of the repository as it stands, but
that a link to a source leads to a page with that source, one to a folder to a list of its files, that the lists of
docs/book.md are the order of the pages, and that each chapter of the tutorial ends with its program.

book.py check FOLDER: every link and picture of the site in FOLDER leads to something that is there."""
import html.parser
import pathlib
import posixpath
import re
import subprocess
import sys
import urllib.parse

LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".def": "cpp", ".cu": "cpp", ".cuh": "cpp", ".sh": "sh", ".yaml": "yaml", ".py": "python"}
SHOWN = ("examples/", "deploy/")  # folders whose files have pages; of others a list of names is enough


class Book:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.files = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.split()
        self.made = set()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def page_of(self, target):
        """The page that shows a file or folder of the repository, made where it is not there yet."""
        inside = [f for f in self.files if f.startswith(target + "/")]
        if target + "/README.md" in inside:
            return target + "/README.md"
        if not inside and target not in self.files:
            return None
        page = f"sources/{target}{'/' if inside else '.'}page.md"
        if page not in self.made:
            self.made.add(page)
            self.write(page, self.folder_page(target, inside, page) if inside else self.file_page(target))
        return page

    def code(self, file):
        fence = "`" * 8
        return f"{fence}{LANGUAGES.get(pathlib.Path(file).suffix, '')}\n{pathlib.Path(file).read_text()}{fence}\n"

    def file_page(self, file):
        return f"---\norphan: true\n---\n# {file}\n\n{self.code(file)}"

    def folder_page(self, folder, inside, page):
        lines = []
        for file in inside:
            known = file.endswith(".md")
            target = file if known else self.page_of(file) if file.startswith(SHOWN) else None
            name = file[len(folder) + 1:]
            lines.append(f"- [{name}]({posixpath.relpath(target, posixpath.dirname(page))})" if target else f"- {name}")
        return f"---\norphan: true\n---\n# {folder}/\n\n" + "\n".join(lines) + "\n"

    def link(self, page, match):
        target, _, anchor = match[2].partition("#")
        if not target or ":" in target or target.endswith((".md", ".svg")):
            return match[0]
        found = self.page_of(posixpath.normpath(posixpath.join(posixpath.dirname(page), target)))
        if not found:
            return match[0]  # Sphinx, or the check, finds it
        return f"{match[1]}({posixpath.relpath(found, posixpath.dirname(page) or '.')}{'#' + anchor if anchor else ''})"

    def prose(self, page, text):
        """Links, outside of blocks of code."""
        parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.M | re.S)
        return "".join(part if i % 2 else re.sub(r"(\])\(([^()\s]+)\)", lambda m: self.link(page, m), part)
                       for i, part in enumerate(parts))

    def contents(self, text):
        """Each list of docs/book.md is also the order of its pages."""
        def tree(match):
            pages = [posixpath.normpath("docs/" + p) for p in re.findall(r"^- \[[^]]*\]\(([^)]*)\)", match[2], flags=re.M)]
            folders = [p for p in pages if not p.endswith(".md")]
            pages = [p for p in pages if p not in folders] + [f for f in self.files if f.startswith(tuple(d + "/" for d in folders))]
            entries = "\n".join("/" + p.removesuffix(".md") for p in pages)
            return f"{match[0].rstrip()}\n\n```{{toctree}}\n:hidden:\n:caption: {match[1]}\n\n{entries}\n```\n\n"
        return re.sub(r"^## (.*)\n\n((?:[- ] .*\n)+)", tree, text, flags=re.M)

    def chapters(self, text):
        """Each chapter of the tutorial ends with its program."""
        parts = re.split(r"(?=^## )", text, flags=re.M)
        for i, part in enumerate(parts):
            if number := re.match(r"## (\d)\. ", part):
                program, = (f for f in self.files if f.startswith(f"examples/tutorial/0{number[1]}_"))
                parts[i] = f"{part.rstrip()}\n\nThe program of this chapter:\n\n{self.code(program)}\n"
        return "".join(parts)

    def prepare(self):
        for file in self.files:
            if file.endswith(".md"):
                text = pathlib.Path(file).read_text()
                if file == "docs/book.md":
                    text = self.contents(text)
                if file == "docs/reference.md":
                    text += '\n<p><a href="../reference/namespaces.html">Namespaces</a>, <a href="../reference/annotated.html">classes</a>,' \
                            ' <a href="../reference/namespacemembers.html">functions</a>, <a href="../reference/files.html">headers</a></p>\n'
                text = self.prose(file, text)
                self.write(file, self.chapters(text) if file == "docs/tutorial.md" else text)
            elif file.startswith("docs/pictures/") and file.endswith(".svg"):
                self.write(file, pathlib.Path(file).read_text())


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors |= {attributes[a] for a in ("id", "name") if attributes.get(a)}
        self.links += [attributes[a] for a in ("href", "src") if attributes.get(a)]


def check(folder):
    folder = pathlib.Path(folder).resolve()
    pages = {path: Page(path.read_text(errors="replace")) for path in folder.rglob("*.html")}
    reference = {path for path in pages if path.is_relative_to(folder / "reference")}
    count, dead = 0, []
    for path, page in pages.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            count += 1
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            # Doxygen speaks of sections that it then leaves out.
            own = {target, path} <= reference
            anchors = pages[target].anchors if target in pages and not own else None
            if not target.is_file() or (url.fragment and anchors is not None and urllib.parse.unquote(url.fragment) not in anchors):
                dead.append(f"{path.relative_to(folder)}: {link}")
    print("\n".join(sorted(set(dead))[:50] + [f"{count} links in {len(pages)} pages of the site, {len(set(dead))} dead"]))
    return 1 if dead or not pages else 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("prepare", "check"):
        sys.exit(__doc__)
    sys.exit(check(sys.argv[2]) if sys.argv[1] == "check" else Book(sys.argv[2]).prepare())
