;; error: none
;; world: self-testing
