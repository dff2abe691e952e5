;; error: out_of_fuel
;; when: load
;; The host allocates memory for its arguments, and the allocator never returns.
(memory (export "memory") 2)
(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
  (loop $again (br $again))
  (unreachable))
