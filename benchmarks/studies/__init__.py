"""Studies: figures of papers on HER, and the runs of the recipes; ``make reproduce`` executes them.

A study is a list of labeled runs (`runs`), which are executed in parallel processes or in a Ray cluster
(`run_all`). Each result is appended to a CSV file (`results_file`). At the end, a figure (`plots`) and a page
(`study`) are written. To add a study, write a module like `bitflip`, and list the module in `__main__`.
"""
