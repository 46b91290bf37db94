"""The form that brings a program."""

from typing import Any

from django import forms

from execution.archives import LARGEST_ARCHIVE
from execution.programs import NewProgram
from frontend.forms.base import ArgumentsField, PageForm
from scheduling.model.json_text import read_json
from scheduling.model.validation import shown


class ProgramForm(PageForm):
    """A program of one's own, or for an operator one for all."""

    name = forms.CharField(max_length=60, help_text="Bids name it by this name, which stays.")
    arguments = ArgumentsField(
        max_length=4_000,
        help_text="The interpreter, the script and their arguments, such as python3 job.py; no shell reads them.",
    )
    archive = forms.FileField(
        required=False,
        help_text=f"A tar.gz or zip file of at most {LARGEST_ARCHIVE:,} bytes; the program starts in what it contains.",
    )
    working_directory = forms.CharField(
        required=False, max_length=400, help_text="Instead of an archive: a directory that is on every server."
    )
    environment = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text='Variables as JSON, such as {"OMP_NUM_THREADS": "1"}.',
    )

    def __init__(self, *args: Any, for_all: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not for_all:
            del self.fields["working_directory"]
            self.fields["archive"].required = True

    def clean_archive(self) -> bytes:
        """Read the archive, and one byte more than there may be."""
        file = self.cleaned_data["archive"]
        return b"" if file is None else bytes(file.read(LARGEST_ARCHIVE + 1))

    def clean_environment(self) -> dict[str, str]:
        """Read the variables."""
        text = self.cleaned_data["environment"].strip()
        try:
            found = read_json(text) if text else {}
        except ValueError as error:
            raise forms.ValidationError(f"Expected JSON, got an invalid document: {error}") from None
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise forms.ValidationError(f"Expected an object of texts, got {shown(found)}.")
        return found

    def new(self) -> NewProgram:
        """Return the program that was stated."""
        return NewProgram(**self.cleaned_data)
