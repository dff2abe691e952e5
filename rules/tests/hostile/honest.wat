;; error: none
;; Not hostile: checks that the parts work.
