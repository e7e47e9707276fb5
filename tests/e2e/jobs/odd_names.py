"""File and function names that a CSV, a shell or an ASCII reader would trip over."""
import torch

torch.manual_seed(0)
SOURCE = '''
def {function}(x):
    y = x * 2
    return y.relu()
'''
NAMES = (
    ("plain.py", "plain"),
    ("/data/with space/train job.py", "with_space"),
    ("/data/a,comma.py", "comma"),
    ('/data/a"quote".py', "quote"),
    ('/data/"both", of them.py', "both"),
    ("/data/größe.py", "größe"),
    ("/data/训练.py", "训练"),
    ("/data/\N{GREEK SMALL LETTER ALPHA}\N{ROCKET}.py", "αβγ"),
    ("/data/it's; a: colon.py", "colon"),
    ("/data/" + "long/" * 60 + "end.py", "f" + "x" * 200),
    ("<string>", "from_string"),
    ("", "no_file"),
)
results = []
for file, function in NAMES:
    scope = {}
    exec(compile(SOURCE.format(function=function), file, "exec"), scope)
    results.append(scope[function](torch.ones(3, 3)))


class Größe(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.линейный = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.линейный(x)


модуль = Größe()
results.append((lambda x: модуль(x) + 1)(torch.ones(2, 3)))
results += [value + 1 for value in results[:2]]
