"""Runs of a user's program: their process trees, their folders, their history.

Standard library and platformdirs only, for the language server ships this package and starts the supervisor itself::

    spec = RunSpec(target="train.py", python="/venv/bin/python", cwd="/w")     # what is asked        (spec)
    folder = Store().create(spec)                                               # where it is kept     (store, folder)
    command = launch.supervisor_command(launch.write_spec(spec, folder))        # who looks after it   (launch)
    # events of the run come as JSON lines on the supervisor's standard output  (events)

Only :mod:`ridgeline.runs.processes` starts, signals or reaps processes.
"""
