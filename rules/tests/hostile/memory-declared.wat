;; error: memory
;; when: load
;; Declares 100 MiB.
(memory (export "memory") 1600)
(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (unreachable))
