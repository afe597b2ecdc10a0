"""The figures of the papers: ``python -m examples.reproduce bitflip|strategies|reach|fetch``.

A study is a list of trainings under labels (`runs`), done by processes side by side (`pool`), each kept in a
CSV file as soon as it is there (`record`), and in the end a figure (`plots`) and a page (`page`). To add
one, write a module like `bitflip` and a command for it.
"""

try:
    import matplotlib as mpl  # noqa: F401 - here, before all that needs it, so that its absence is told
except ImportError as error:
    raise SystemExit('figures need matplotlib; run: pip install "her-toolkit[examples]"') from error
