"""The rules of promptctx: values in, values out; no clock, no chance, no I/O."""
