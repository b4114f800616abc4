from small import make, step

model, optimizer = make()
for i in range(30):
    step(model, optimizer)
    if i == 25:
        raise ValueError("boom")
