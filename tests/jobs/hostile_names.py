"""Names of files, functions, modules and parameters that would be markup, or the end of a script, in a page that believed them."""
import torch

IMAGE = "<img src=x onerror=document.documentElement.dataset.hacked=1>"
SCRIPT = "</script><script>document.documentElement.dataset.hacked=1</script>"
SOURCE = '''
def {function}(x):
    return x * 2
'''


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        setattr(self, IMAGE.replace(".", "-"), torch.nn.Linear(64, 64))
        self.register_buffer(SCRIPT.replace(".", "-"), torch.ones(64, 64))

    def forward(self, x):
        return getattr(self, IMAGE.replace(".", "-"))(x)


def call(file, function):
    scope = {}
    exec(compile(SOURCE.format(function=function), file, "exec"), scope)
    return scope[function](torch.ones(64, 64))


holder = Holder()
optimizer = torch.optim.AdamW(holder.parameters())
kept = [call(f"/data/{IMAGE}.py", "image"), call(f"/data/{SCRIPT}.py", "script"), call("/data/a\"b'c&amp;.py", "quotes")]
for _ in range(2):
    optimizer.zero_grad()
    holder(torch.ones(64, 64)).sum().backward()
    optimizer.step()
