"""Studies: figures of papers on HER, reproduced by ``her reproduce bitflip|strategies|reach|fetch``.

A study is a list of labeled trainings (`runs`), which run in parallel processes (`run_all`). Each result is
appended to a CSV file (`results_file`). At the end, a figure (`plots`) and a page (`study`) are written. To
add a study, write a module like `bitflip` and a command.
"""
