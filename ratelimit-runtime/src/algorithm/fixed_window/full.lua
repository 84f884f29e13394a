return answering(counters(fixed_window))
