"""Author here, evaluate there: tasks and candidates in one signed folder, judged on another machine, brought back.

`gather` takes candidates out of an archive or from unit files, `bundle` writes and reads what travels, `running` judges it
where the accelerator is, and `importing` puts the results into an archive. The machine that judges needs neither
an archive nor SQLAlchemy: `running` imports none of it.
"""
