"""Studies: figures of papers on HER, reproduced by ``her reproduce bitflip|strategies|reach|fetch``.

A study is a list of labelled trainings (`runs`), executed by parallel processes (`run_all`). Each result is
appended to a CSV file when its training ends (`results_file`); a figure (`plots`) and a page (`study`) follow
at the end. A new study is a module like `bitflip`, and a command.
"""
