"""Markets and queues on the jobs of traces, at five loads, with two families of values.

The split was written down before anything was tuned: defaults of policies are chosen on the project's own samples
(`workloads.TUNING`, synthetic rows), and judged on the traces of another folder, which nobody tunes on.
"""
