from warpsmith.errors import JudgeError
from warpsmith.judge.timing.zygote import starts_confined


def test_a_child_that_could_not_start_is_noticed():
    def refused() -> None:
        raise JudgeError("CUDA does not start")

    assert starts_confined(lambda: None)
    assert not starts_confined(refused)
