"""The page of ``perago ui``: runs, branches and the cluster in a browser, live.

``door`` says who may come in, ``endpoints`` what is answered, ``server`` speaks HTTP. The page itself is three files
beside them, served as they are: no build step, nothing from elsewhere. It decides nothing and knows nothing that a
command does not say; each endpoint calls what the command of its name calls.
"""
