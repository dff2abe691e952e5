;; error: memory
;; when: load
(table 10000000 funcref)
