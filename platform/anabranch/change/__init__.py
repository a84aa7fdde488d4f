"""Change: what a reprocess would do, as data, before anything is done."""
