def rewrite(path, target, starts, kept, *, format=None, encoding=None):
    raise NotImplementedError
