# How Sphinx reads the folder that scripts/book.py prepares.
project = "Tendril"
author = "The Tendril authors"
html_title = "Tendril"
extensions = ["myst_parser"]
root_doc = "docs/book"
myst_heading_anchors = 4
html_theme = "alabaster"
html_theme_options = {"description": "Tensors, autograd and distributed autograd in C++20", "page_width": "70em",
                      "sidebar_width": "17em", "body_max_width": "50em"}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_show_sourcelink = False
html_copy_source = False
# A dot graph or a transcript says no language, and some shell lines hold what the reader is to fill in.
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
