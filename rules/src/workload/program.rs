//! Kinds of workload that the programs on a GPU imply, by their command lines.
//!
//! Only programs that do one kind of work: `vllm` has a server and a batch command, and a launcher of
//! ranks trains unless its script is named after something else. They may contain secrets, so nothing
//! of them is kept.

use super::Workload::{self, Batch, Interactive, Serving, Training};

/// What a program implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// Work of this kind.
    Kind(Workload),
    /// That a notebook below it runs by itself.
    RunsNotebooks,
    /// Nothing.
    None,
}

/// Programs that only serve models.
const SERVERS: [&str; 11] = [
    "tritonserver",
    "text-generation-launcher",
    "text-generation-server",
    "text-embeddings-router",
    "llama-server",
    "ollama",
    "ollama_llama_server",
    "trtllm-serve",
    "torchserve",
    "tensorflow_model_server",
    "mlserver",
];

/// Modules of Python, and programs with a subcommand, that serve models.
const SERVER_MODULES: [&str; 4] = [
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.api_server",
    "sglang.launch_server",
    "fastchat.serve.model_worker",
];
const SERVER_COMMANDS: [(&str, &str); 4] =
    [("vllm", "serve"), ("sglang", "serve"), ("lmdeploy", "serve"), ("bentoml", "serve")];

/// The same of batch inference.
const BATCH_MODULES: [&str; 1] = ["vllm.entrypoints.openai.run_batch"];
const BATCH_COMMANDS: [(&str, &str); 1] = [("vllm", "run-batch")];

/// The same of notebooks and editors.
const NOTEBOOKS: [&str; 8] = [
    "jupyter-lab",
    "jupyter-notebook",
    "jupyterhub-singleuser",
    "ipykernel_launcher",
    "ipykernel",
    "code-server",
    "rserver",
    "rsession",
];
const NOTEBOOK_COMMANDS: [(&str, &str); 2] = [("jupyter", "lab"), ("jupyter", "notebook")];

/// Programs that run notebooks without a person.
const NOTEBOOK_RUNNERS: [&str; 4] =
    ["papermill", "jupyter-nbconvert", "nbconvert", "jupyter-execute"];
const NOTEBOOK_RUNNER_COMMANDS: [(&str, &str); 2] =
    [("jupyter", "nbconvert"), ("jupyter", "execute")];

/// Launchers of ranks: programs and modules, of which the script tells what they do.
const LAUNCHERS: [&str; 7] = [
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "deepspeed",
    "deepspeed.launcher.launch",
    "accelerate-launch",
    "accelerate.commands.launch",
];
const LAUNCHER_COMMANDS: [(&str, &str); 1] = [("accelerate", "launch")];

/// Words of names of scripts that train.
const TRAINING_WORDS: [&str; 8] =
    ["train", "training", "trainer", "pretrain", "pretraining", "finetune", "finetuning", "sft"];

/// Words of names of scripts that do something else, whatever else is in the name.
const OTHER_WORDS: [&str; 25] = [
    "eval",
    "evaluate",
    "evaluation",
    "evals",
    "infer",
    "inference",
    "predict",
    "prediction",
    "generate",
    "generation",
    "sample",
    "serve",
    "server",
    "serving",
    "worker",
    "bench",
    "benchmark",
    "test",
    "tests",
    "embed",
    "embeddings",
    "encode",
    "score",
    "preprocess",
    "convert",
];

/// Beginnings of the names of interpreters of Python.
const PYTHON: &str = "python";

/// The kind of the work of a process, by the command lines of it and its ancestors, itself first; unknown
/// if no program among them is of one kind.
#[must_use]
pub fn kind<'a>(lineage: impl IntoIterator<Item = &'a [String]>) -> Workload {
    let mut found = Workload::Unknown;
    for args in lineage {
        match sign(args) {
            // The nearest program decides: a notebook can start a training.
            Sign::Kind(kind) if found == Workload::Unknown => found = kind,
            Sign::RunsNotebooks if found == Interactive => return Workload::Unknown,
            Sign::Kind(_) | Sign::RunsNotebooks | Sign::None => {}
        }
    }
    found
}

/// Whether a process computes nothing of its own, but for others, as the server of MPS.
#[must_use]
pub fn is_infrastructure(args: &[String]) -> bool {
    let name = args.first().map(|arg| base_name(arg)).unwrap_or_default();
    matches!(name, "nvidia-cuda-mps-server" | "nvidia-cuda-mps-control" | "nv-hostengine")
}

fn sign(args: &[String]) -> Sign {
    let Some((name, rest)) = program(args) else { return Sign::None };
    let next = rest.iter().map(String::as_str).find(|arg| !arg.starts_with('-'));
    let has = |commands: &[(&str, &str)]| next.is_some_and(|next| commands.contains(&(name, next)));
    if SERVERS.contains(&name) || SERVER_MODULES.contains(&name) || has(&SERVER_COMMANDS) {
        Sign::Kind(Serving)
    } else if BATCH_MODULES.contains(&name) || has(&BATCH_COMMANDS) {
        Sign::Kind(Batch)
    } else if NOTEBOOKS.contains(&name) || has(&NOTEBOOK_COMMANDS) {
        Sign::Kind(Interactive)
    } else if NOTEBOOK_RUNNERS.contains(&name) || has(&NOTEBOOK_RUNNER_COMMANDS) {
        Sign::RunsNotebooks
    } else if LAUNCHERS.contains(&name) || has(&LAUNCHER_COMMANDS) {
        match script(rest) {
            Some(script) if !has_word(script, &OTHER_WORDS) => Sign::Kind(Training),
            _ => Sign::None,
        }
    } else if is_script(args) && has_word(name, &TRAINING_WORDS) && !has_word(name, &OTHER_WORDS) {
        Sign::Kind(Training)
    } else {
        Sign::None
    }
}

/// The name of a program, module or script, and its arguments.
fn program(args: &[String]) -> Option<(&str, &[String])> {
    let (first, rest) = args.split_first()?;
    let name = base_name(first);
    if !name.starts_with(PYTHON) {
        return Some((stem(name), rest));
    }
    // Its own options precede what it runs; two of them have a value.
    let mut at = 0;
    loop {
        match rest.get(at)?.as_str() {
            "-m" => return Some((rest.get(at + 1)?, rest.get(at + 2..)?)),
            // Code on the command line.
            "-c" | "-" => return None,
            "-W" | "-X" => at += 2,
            option if option.starts_with('-') => at += 1,
            script => return Some((stem(base_name(script)), rest.get(at + 1..)?)),
        }
    }
}

/// Whether a command line runs a script or module of Python.
fn is_script(args: &[String]) -> bool {
    args.first().is_some_and(|first| {
        let name = base_name(first);
        name.starts_with(PYTHON) || is_python_file(name)
    })
}

/// The script or module that a launcher runs, by its arguments.
fn script(args: &[String]) -> Option<&str> {
    let module = args.iter().position(|arg| arg == "-m" || arg == "--module");
    let file = args.iter().position(|arg| is_python_file(arg));
    match (file, module) {
        // A module after the script is an argument of the script.
        (Some(file), module) if module.is_none_or(|module| file < module) => {
            Some(stem(base_name(args.get(file)?)))
        }
        (_, Some(module)) => args.get(module + 1).map(String::as_str),
        _ => None,
    }
}

fn is_python_file(name: &str) -> bool {
    name.ends_with(".py")
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn stem(name: &str) -> &str {
    name.strip_suffix(".py").unwrap_or(name)
}

/// Whether one of these is a word of a name like `train_gpt`.
fn has_word(name: &str, words: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    /// The kind of a process, by its command line and those of its ancestors.
    fn of(lineage: &[&str]) -> Workload {
        let lineage: Vec<_> = lineage.iter().map(|line| args(line)).collect();
        kind(lineage.iter().map(Vec::as_slice))
    }

    #[test]
    fn programs_of_one_kind_imply_it() {
        for (line, expected) in [
            ("tritonserver --model-repository /models", Serving),
            ("/usr/local/bin/text-generation-launcher --port 80", Serving),
            ("/usr/bin/python3 /usr/local/bin/vllm serve meta-llama/Llama-3-8B", Serving),
            ("vllm serve Qwen/Qwen3-8B", Serving),
            ("python3 -m vllm.entrypoints.openai.api_server --model m", Serving),
            ("python -m sglang.launch_server --model-path m", Serving),
            ("/usr/bin/ollama runner --model /blobs/1", Serving),
            ("vllm run-batch -i in.jsonl -o out.jsonl", Batch),
            ("vllm bench throughput", Workload::Unknown),
            ("VLLM::EngineCore", Workload::Unknown),
            ("/opt/conda/bin/python -m ipykernel_launcher -f /tmp/kernel.json", Interactive),
            ("python /opt/conda/bin/jupyter-lab --no-browser", Interactive),
            ("jupyter lab", Interactive),
            ("torchrun --nproc_per_node 8 train.py --lr 1e-4", Training),
            ("python -m torch.distributed.run --nnodes=2 main.py", Training),
            ("/usr/bin/python3.12 -u /usr/local/bin/torchrun pretrain_gpt.py", Training),
            ("accelerate launch --mixed_precision bf16 run_clm.py", Training),
            ("deepspeed --num_gpus 8 finetune.py", Training),
            ("torchrun --nproc_per_node 8 eval.py --model train.py", Workload::Unknown),
            ("accelerate launch -m lm_eval --tasks mmlu", Workload::Unknown),
            ("torchrun generate.py", Workload::Unknown),
            ("torchrun --nproc_per_node 8", Workload::Unknown),
            ("accelerate config", Workload::Unknown),
            ("python train.py", Training),
            ("python -X dev -m mypackage.train --epochs 3", Training),
            ("./train.py", Training),
            ("python main.py train", Workload::Unknown),
            ("python eval_train_set.py", Workload::Unknown),
            ("python constraint.py", Workload::Unknown),
            ("python -c import train", Workload::Unknown),
            ("bash train.sh", Workload::Unknown),
            ("train", Workload::Unknown),
            ("python", Workload::Unknown),
            ("", Workload::Unknown),
        ] {
            assert_eq!(of(&[line]), expected, "{line}");
        }
        assert_eq!(kind([]), Workload::Unknown);
    }

    #[test]
    fn nearest_program_decides() {
        let shell = "bash";
        let server = "python /usr/local/bin/vllm serve m";
        assert_eq!(of(&["VLLM::Worker_TP0", "VLLM::EngineCore", server, shell]), Serving);
        assert_eq!(of(&["python main.py", "python /bin/torchrun main.py", shell]), Training);
        let notebook = "python -m ipykernel_launcher -f k.json";
        let lab = "python /bin/jupyter-lab";
        assert_eq!(of(&["python train.py", shell, lab]), Training, "a terminal in a notebook");
        assert_eq!(of(&[notebook, lab]), Interactive);
        for runner in ["python /bin/papermill in.ipynb out.ipynb", "jupyter nbconvert --execute n"]
        {
            assert_eq!(of(&[notebook, runner]), Workload::Unknown, "no person works on it");
        }
    }

    #[test]
    fn infrastructure_is_none_of_the_work() {
        assert!(is_infrastructure(&args("/usr/bin/nvidia-cuda-mps-server")));
        assert!(!is_infrastructure(&args("python nv-hostengine")));
    }
}
