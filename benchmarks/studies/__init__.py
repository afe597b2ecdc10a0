"""Studies of ``her reproduce``: figures of papers on HER, and the trainings of the recipes.

A study is a list of labeled trainings (`runs`), which run in parallel processes (`run_all`) or in a Ray
cluster (`run_on_ray`). Each result is appended to a CSV file (`results_file`). At the end, a figure (`plots`)
and a page (`study`) are written. To add a study, write a module like `bitflip` and a command.
"""
