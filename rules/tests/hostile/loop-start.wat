;; error: out_of_fuel
;; when: load
(func $spin (loop $again (br $again)))
(start $spin)
