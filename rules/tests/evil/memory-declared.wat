;; fault: memory
;; when: load
;; 100 MiB from the start.
(memory (export "memory") 1600)
(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (unreachable))
