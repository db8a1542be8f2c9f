"""The judge: built candidates in, verdicts and timings out. No verdict is computed where candidate code
ran."""
