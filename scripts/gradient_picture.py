#!/usr/bin/env python3
"""Draws the README's moving picture: the gradient of the README's two-worker program, step by step, as an animated SVG.

    scripts/gradient_picture.py > docs/pictures/gradient.svg

One row of boxes per worker. Solid arrows are the forward pass; the dot is the gradient, which goes against them.
"""
SECONDS_PER_STEP = 1.2
WIDTH, HEIGHT = 860, 260
ROW = {"alice": 80, "bob": 190}
# Name, worker, column, and for bob's parameter an own row.
NODES = {
    "x": ("alice", 0), "exp": ("alice", 1), "send": ("alice", 2), "recv": ("bob", 2), "* w": ("bob", 3), "w": ("bob", 1),
    "send ": ("bob", 4), "recv ": ("alice", 4), "* x": ("alice", 5), "sum": ("alice", 6),
}
ARROWS = [("x", "exp"), ("exp", "send"), ("send", "recv"), ("recv", "* w"), ("w", "* w"), ("* w", "send "),
          ("send ", "recv "), ("recv ", "* x"), ("* x", "sum")]
# Where the gradient is in each step, and what happens there.
STEPS = [
    (["sum"], "alice: backward(context, {loss}) starts with the gradient 1 of the loss"),
    (["* x"], "alice: the product sends one gradient back along the graph and adds the other to x"),
    (["recv "], "alice: the value came from bob, so its gradient goes to bob"),
    (["send "], "bob: the gradient arrives, and backward continues here"),
    (["* w"], "bob: the product has two operands"),
    (["w", "recv"], "bob: the gradient of w stays here, in the context"),
    (["send"], "alice: bob's gradient for exp(x) arrives"),
    (["exp"], "alice: through exp"),
    (["x"], "alice: both parts are added: the gradient of x"),
]
TOTAL = SECONDS_PER_STEP * (len(STEPS) + 1)


def center(name):
    worker, column = NODES[name]
    return 80 + 116 * column, ROW[worker]


def shown(step, element):
    """The element, visible during one step; the last step stays for twice as long."""
    begin, end = step / (len(STEPS) + 1), (step + 1 + (step == len(STEPS) - 1)) / (len(STEPS) + 1)
    times = [0, begin, end] if step else [0, end]
    values = ["0", "1", "0"] if step else ["1", "0"]
    if times[-1] >= 1:
        times, values = times[:-1], values[:-1]
    animation = (f'<animate attributeName="opacity" calcMode="discrete" dur="{TOTAL:g}s" repeatCount="indefinite" '
                 f'keyTimes="{";".join(f"{t:.4g}" for t in times)}" values="{";".join(values)}"/>')
    return element.replace(">", f' opacity="0">{animation}', 1)


def main():
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="15">',
           "<title>A gradient that travels from worker alice to worker bob and back</title>",
           '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
           '<path d="M0,0 L8,4 L0,8 z" fill="#888"/></marker></defs>',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for worker, y in ROW.items():
        out.append(f'<rect x="20" y="{y - 42}" width="{WIDTH - 40}" height="84" rx="8" fill="#f4f6f8"/>')
        out.append(f'<text x="{WIDTH - 30}" y="{y - 24}" text-anchor="end" fill="#666">{worker}</text>')
    for start, end in ARROWS:
        (x1, y1), (x2, y2) = center(start), center(end)
        if y1 == y2:
            x1, x2 = x1 + 36, x2 - 36
        else:
            y1, y2 = y1 + (18 if y2 > y1 else -18), y2 + (-18 if y2 > y1 else 18)
        if (start, end) == ("w", "* w"):  # below recv
            out.append(f'<path d="M{x1 - 36},{y1 + 18} Q{(x1 + x2) / 2},{y1 + 48} {x2 + 36},{y2 + 18}" fill="none" '
                       'stroke="#888" marker-end="url(#a)"/>')
        else:
            out.append(f'<path d="M{x1},{y1} L{x2},{y2}" stroke="#888" marker-end="url(#a)"/>')
    for name in NODES:
        x, y = center(name)
        out.append(f'<rect x="{x - 36}" y="{y - 18}" width="72" height="36" rx="6" fill="#fff" stroke="#446"/>')
        out.append(f'<text x="{x}" y="{y + 5}" text-anchor="middle" fill="#223">{name.strip()}</text>')
    for step, (names, caption) in enumerate(STEPS):
        for name in names:
            x, y = center(name)
            out.append(shown(step, f'<rect x="{x - 36}" y="{y - 18}" width="72" height="36" rx="6" fill="#f60" '
                                   'fill-opacity="0.35" stroke="#f60" stroke-width="3"></rect>'))
        out.append(shown(step, f'<text x="{WIDTH / 2:g}" y="24" text-anchor="middle" fill="#b40">{caption}</text>'))
    out.append("</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
