"""Kinds of sketches, one module each: a `Sketch` of `base` that `scheme.KINDS` lists."""
