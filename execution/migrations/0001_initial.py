import cluster.clock
import django.core.validators
import django.db.models.deletion
import execution.models
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auctions', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('cluster', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Checkpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('step', models.PositiveBigIntegerField()),
                ('path', models.CharField(max_length=600)),
                ('found_at', models.DateTimeField()),
                ('deleted_at', models.DateTimeField(help_text='Time at which its directory was deleted as too old.', null=True)),
            ],
            options={
                'ordering': ['generation', 'step'],
            },
        ),
        migrations.CreateModel(
            name='Lease',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=20, unique=True)),
                ('holder', models.CharField(max_length=120)),
                ('fence', models.PositiveBigIntegerField()),
                ('since', models.FloatField(default=0.0, help_text='Time at which its holder took it, seconds since 1970.')),
                ('until', models.FloatField(help_text='End, seconds since 1970.')),
            ],
        ),
        migrations.CreateModel(
            name='Generation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('fence', models.PositiveBigIntegerField(help_text='Fence of the executor that created it.')),
                ('allocation', models.JSONField(help_text='Its machines: role, server, machine type (keys of rows) and count.')),
                ('slot', models.BigIntegerField(help_text='Slot in which it was started.')),
                ('state', models.CharField(choices=[('running', 'Running'), ('stopping', 'Stopping'), ('ended', 'Ended')], default='running', max_length=8)),
                ('ending', models.CharField(blank=True, choices=[('finished', 'The program finished'), ('changed', 'Its machines changed'), ('promise over', 'Its last slot ended'), ('cancelled', 'Its bid was cancelled or failed'), ('switched off', 'The cluster stopped executing'), ('fault', 'A process failed'), ('lost', 'A process was lost')], max_length=12)),
                ('until', models.FloatField(help_text='Time until which its machines are held, seconds since 1970.')),
                ('created_at', models.DateTimeField()),
                ('stopped_at', models.DateTimeField(help_text='Time at which it was asked to stop.', null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('resumed_from', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='resumed', to='execution.checkpoint')),
            ],
            options={
                'ordering': ['training', 'number'],
            },
        ),
        migrations.AddField(
            model_name='checkpoint',
            name='generation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checkpoints', to='execution.generation'),
        ),
        migrations.CreateModel(
            name='Process',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('worker', 'Worker'), ('ps', 'Parameter server')], max_length=6)),
                ('rank', models.PositiveIntegerField(help_text="Number among the generation's processes of its role, from 0 on.")),
                ('local_rank', models.PositiveIntegerField(help_text="Number among the generation's processes on its server.")),
                ('key', models.CharField(help_text='Its name in the engine.', max_length=60, unique=True)),
                ('state', models.CharField(choices=[('sent', 'Sent to the engine'), ('running', 'Running'), ('exited', 'Exited'), ('lost', 'Lost')], default='sent', max_length=8)),
                ('code', models.IntegerField(help_text='Exit code; 128 + the number of a signal that ended it.', null=True)),
                ('reason', models.TextField(blank=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('started_slot', models.FloatField(help_text="Time of its start by the cluster's clock, slots.", null=True)),
                ('ended_slot', models.FloatField(help_text="Time of its end by the cluster's clock, slots.", null=True)),
                ('generation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='processes', to='execution.generation')),
                ('machine_type', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='processes', to='cluster.machinetype')),
                ('server', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='processes', to='cluster.server')),
            ],
            options={
                'verbose_name_plural': 'processes',
                'ordering': ['generation', '-role', 'rank'],
                'constraints': [models.UniqueConstraint(fields=('generation', 'role', 'rank'), name='process_rank_once'), models.CheckConstraint(condition=models.Q(('state__in', ['sent', 'running', 'exited', 'lost'])), name='process_state_known'), models.CheckConstraint(condition=models.Q(('role__in', ['worker', 'ps'])), name='process_role_known'), models.CheckConstraint(condition=models.Q(models.Q(('code__isnull', False), ('state', 'exited')), models.Q(models.Q(('state', 'exited'), _negated=True), ('code__isnull', True)), _connector='OR'), name='process_exited_has_code')],
            },
        ),
        migrations.CreateModel(
            name='Program',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9][A-Za-z0-9._-]*\\Z', 'Use letters, digits, dots, dashes and underscores.')])),
                ('arguments', models.JSONField(help_text='The program and its first arguments, as a list: ["python3", "train.py"].', validators=[execution.models.texts])),
                ('working_directory', models.CharField(blank=True, help_text='Directory on the servers in which it starts; empty with an archive.', max_length=400)),
                ('archive_sha256', models.CharField(blank=True, help_text='SHA-256 of the archive with its files, hex; it starts in the directory to which that is unpacked.', max_length=64)),
                ('archive_bytes', models.PositiveIntegerField(default=0, help_text='Size of the archive.')),
                ('environment', models.JSONField(blank=True, default=dict, validators=[execution.models.environment])),
                ('is_open', models.BooleanField(default=True, help_text='Whether new bids may name it.')),
                ('created_at', models.DateTimeField(default=cluster.clock.now, editable=False)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='programs', to='cluster.cluster')),
                ('owner', models.ForeignKey(blank=True, help_text='The user who brought it, and whose bids alone may name it; null: registered by operators, for all.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='programs', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('owner', None)), fields=('cluster', 'name'), name='program_name_once'), models.UniqueConstraint(fields=('cluster', 'owner', 'name'), name='program_name_once_an_owner'), models.CheckConstraint(condition=models.Q(('owner', None), ('working_directory', ''), _connector='OR'), name='program_of_a_user_has_archive'), models.CheckConstraint(condition=models.Q(models.Q(('working_directory', ''), models.Q(('archive_sha256', ''), _negated=True)), models.Q(models.Q(('working_directory', ''), _negated=True), ('archive_sha256', '')), _connector='OR'), name='program_has_directory_or_archive')],
            },
        ),
        migrations.CreateModel(
            name='Progress',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('step', models.PositiveBigIntegerField()),
                ('loss', models.FloatField(null=True)),
                ('seconds', models.FloatField(help_text='Duration of the step, as the program reports it.', null=True)),
                ('at', models.DateTimeField()),
                ('generation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='progress', to='execution.generation')),
            ],
            options={
                'verbose_name_plural': 'progress',
                'ordering': ['generation', 'step'],
                'constraints': [models.UniqueConstraint(fields=('generation', 'step'), name='progress_step_once'), models.CheckConstraint(condition=models.Q(('seconds__isnull', True), ('seconds__gte', 0), _connector='OR'), name='progress_seconds_not_negative')],
            },
        ),
        migrations.CreateModel(
            name='Training',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token', models.UUIDField(default=uuid.uuid4, editable=False, help_text="Part of its processes' names.", unique=True)),
                ('arguments', models.JSONField(default=list, help_text='Arguments of the bid, after those of the program.')),
                ('steps', models.PositiveBigIntegerField(help_text='Steps in all; null if the bid does not state them.', null=True)),
                ('state', models.CharField(choices=[('waiting', 'Waiting for its machines'), ('running', 'Running'), ('finished', 'Finished'), ('stopped', 'Stopped with a checkpoint'), ('failed', 'Failed')], default='waiting', max_length=10)),
                ('reason', models.TextField(blank=True, help_text='Why it is in this state.')),
                ('step', models.PositiveBigIntegerField(default=0, help_text='Last step that was reported.')),
                ('loss', models.FloatField(help_text='Loss at that step.', null=True)),
                ('retries', models.PositiveIntegerField(default=0, help_text='Failures in a row since a checkpoint of a newer step was written.')),
                ('wait_until', models.FloatField(default=0.0, help_text='Time before which it is not started again, seconds since 1970.')),
                ('bid', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='training', to='auctions.bid')),
                ('program', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='trainings', to='execution.program')),
                ('starts_from', models.ForeignKey(help_text='The checkpoint of an earlier training from which it resumes; null if it begins at the first step.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='continued', to='execution.checkpoint')),
            ],
            options={
                'ordering': ['-pk'],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['waiting', 'running', 'finished', 'stopped', 'failed'])), name='training_state_known')],
            },
        ),
        migrations.AddField(
            model_name='generation',
            name='training',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='generations', to='execution.training'),
        ),
        migrations.CreateModel(
            name='Execution',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('is_on', models.BooleanField(default=True, help_text='Whether processes are started; those that run are stopped.')),
                ('engine', models.CharField(choices=[('local', 'Processes on this machine'), ('slurm', 'Slurm')], default='local', max_length=10)),
                ('grace_s', models.FloatField(default=10.0, help_text='Seconds between SIGTERM and SIGKILL; a job is stopped this long before it gives its machines back.', validators=[django.core.validators.MinValueValidator(0.1), django.core.validators.MaxValueValidator(3600)])),
                ('memory_mb', models.PositiveIntegerField(blank=True, help_text='Largest address space of one process, MB; empty for no limit, as programs on GPUs need it: they reserve far more than they use.', null=True)),
                ('processes', models.PositiveIntegerField(blank=True, default=10000, help_text='Most processes and threads of a user on one server; empty for no limit. Only with first_uid.', null=True, validators=[django.core.validators.MinValueValidator(1)])),
                ('open_files', models.PositiveIntegerField(blank=True, default=4096, help_text='Most files that one process has open; empty for no limit.', null=True, validators=[django.core.validators.MinValueValidator(16)])),
                ('file_mb', models.PositiveIntegerField(blank=True, default=100000, help_text='Largest file that a process may write, MB; empty for no limit.', null=True)),
                ('niceness', models.PositiveSmallIntegerField(default=10, help_text='How much programs give way to other processes of their server, such as this service: 0 to 19.', validators=[django.core.validators.MaxValueValidator(19)])),
                ('first_uid', models.PositiveIntegerField(blank=True, help_text="Processes of the user with key k run as system user first_uid + k, which needs an executor that runs as root; empty: as the executor's own user, for people who trust each other.", null=True, validators=[django.core.validators.MinValueValidator(1000), django.core.validators.MaxValueValidator(2147483648)])),
                ('allow_root', models.BooleanField(default=False, help_text='Whether programs may run as root, if the executor does and first_uid is empty; else none starts.')),
                ('own_programs', models.BooleanField(default=False, help_text='Whether users may bring programs of their own, in archives.')),
                ('users_trust_each_other', models.BooleanField(default=False, help_text="Whether users may bring programs without first_uid: programs of all users then run as one system user, and can read and change each other's files.")),
                ('slurm_configuration', models.CharField(blank=True, help_text='Path of slurm.conf, if it is not at its usual place.', max_length=400)),
                ('sbatch_options', models.JSONField(blank=True, default=list, help_text='More options of sbatch: ["--partition=gpu"].', validators=[execution.models.texts_or_none])),
                ('addresses', models.JSONField(blank=True, default=dict, help_text='Address at which processes on a server are reached by others, by name of the server; a server that is not named is this machine.', validators=[execution.models.environment])),
                ('keep_days', models.PositiveIntegerField(default=30, help_text='Days after which logs, and directories of trainings that ended, are deleted; the directory with the newest checkpoint of a training is kept three times as long.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(36500)])),
                ('service_url', models.CharField(blank=True, help_text='Address of this service as programs reach it, such as https://market.example: they may then report progress by HTTP. Empty: by file only.', max_length=200, validators=[django.core.validators.URLValidator(schemes=['http', 'https'])])),
                ('cluster', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='execution', to='cluster.cluster')),
            ],
            options={
                'verbose_name_plural': 'executions',
                'constraints': [models.CheckConstraint(condition=models.Q(('grace_s__gt', 0), ('grace_s__lte', 3600)), name='execution_grace_in_range'), models.CheckConstraint(condition=models.Q(('engine__in', ['local', 'slurm'])), name='execution_engine_known'), models.CheckConstraint(condition=models.Q(('keep_days__gte', 1)), name='execution_keeps_a_day'), models.CheckConstraint(condition=models.Q(('own_programs', False), ('first_uid__isnull', False), ('users_trust_each_other', True), _connector='OR'), name='execution_own_programs_apart_or_trusted')],
            },
        ),
        migrations.AddConstraint(
            model_name='checkpoint',
            constraint=models.UniqueConstraint(fields=('generation', 'step'), name='checkpoint_step_once'),
        ),
        migrations.AddIndex(
            model_name='generation',
            index=models.Index(condition=models.Q(('state', 'ended'), _negated=True), fields=['state'], name='generation_live'),
        ),
        migrations.AddConstraint(
            model_name='generation',
            constraint=models.UniqueConstraint(fields=('training', 'number'), name='generation_number_once'),
        ),
        migrations.AddConstraint(
            model_name='generation',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'ended'), _negated=True), fields=('training',), name='generation_live_once'),
        ),
        migrations.AddConstraint(
            model_name='generation',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['running', 'stopping', 'ended'])), name='generation_state_known'),
        ),
        migrations.AddConstraint(
            model_name='generation',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('state', 'ended')), models.Q(models.Q(('state', 'ended'), _negated=True), ('ended_at__isnull', True)), _connector='OR'), name='generation_ended_has_time'),
        ),
    ]
